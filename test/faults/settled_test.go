package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// settle waits until every pool has what it should have, and checks the content of
// each against a fresh render.
func (f *fleet) settle() {
	f.t.Helper()
	f.must(testenv.Until(f.t.Context(), patience, "every pool is at "+f.version(), func() error { return f.behind() }))
	time.Sleep(500 * time.Millisecond) // for what might still be written wrongly
	f.must(f.behind())
	f.each(f.compare)
	f.check()
}

// behind names a pool that does not have what it should.
func (f *fleet) behind() error {
	ctx := f.t.Context()
	var secrets corev1.SecretList
	if err := f.client.List(ctx, &secrets, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
		return err
	}
	documents := map[string]int{}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		pool := poolOf(s)
		if pool == "" || s.Annotations[api.AnnotationPool] != f.namespace+"/"+pool {
			continue
		}
		want := fmt.Sprintf("made for v%s by %s\n", kubelet(f.revision), f.version())
		if s.Annotations[api.AnnotationRevisionFor] != fmt.Sprint(f.revision) || s.Annotations[api.AnnotationOSPVersion] != f.version() || !bytes.Contains(s.Data[api.UserDataKey], []byte(want)) {
			return fmt.Errorf("%s is of %s for revision %s", s.Name, s.Annotations[api.AnnotationOSPVersion], s.Annotations[api.AnnotationRevisionFor])
		}
		documents[pool]++
	}
	for _, pool := range f.pools {
		if documents[pool] != 2 {
			return fmt.Errorf("%s has %d documents", pool, documents[pool])
		}
	}
	return nil
}

// pool reads what there is of one.
type pool struct {
	md                      machines.MachineDeployment
	osc                     osm.OperatingSystemConfig
	bootstrap, provisioning corev1.Secret
	token                   string
}

func (f *fleet) read(ctx context.Context, name string) (*pool, error) {
	p := &pool{}
	base := name + "-" + f.namespace
	for key, obj := range map[client.ObjectKey]client.Object{
		{Namespace: f.namespace, Name: name}:                                                                      &p.md,
		{Namespace: metav1.NamespaceSystem, Name: base + "-config"}:                                               &p.osc,
		{Namespace: api.NamespaceCloudInitSettings, Name: base + bootstrapSuffix}:                                 &p.bootstrap,
		{Namespace: api.NamespaceCloudInitSettings, Name: base + provisioningSuffix}:                              &p.provisioning,
		{Namespace: api.NamespaceCloudInitSettings, Name: f.namespace + "-" + name + "-kubelet-bootstrap-config"}: &corev1.Secret{},
	} {
		if err := f.client.Get(ctx, key, obj); err != nil {
			return nil, err
		}
	}
	var tokens corev1.SecretList
	if err := f.client.List(ctx, &tokens, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{api.LabelTokenPool}); err != nil {
		return nil, err
	}
	n := 0
	for _, t := range tokens.Items {
		if t.Annotations[api.AnnotationPool] == f.namespace+"/"+name {
			p.token, n = string(t.Data["token-id"])+"."+string(t.Data["token-secret"]), n+1
		}
	}
	if n != 1 {
		return nil, fmt.Errorf("it has %d bootstrap tokens", n)
	}
	return p, nil
}

var bearer = regexp.MustCompile(`Bearer ([^' ]+)`)

// compare renders a pool afresh, by the command, and compares.
func (f *fleet) compare(ctx context.Context, name string) error {
	p, err := f.read(ctx, name)
	if err != nil {
		return err
	}
	for _, obj := range []client.Object{&p.osc, &p.provisioning} {
		if obj.GetAnnotations()[api.AnnotationInputDigest] != p.bootstrap.Annotations[api.AnnotationInputDigest] {
			return fmt.Errorf("%T and the bootstrap Secret are of two generations", obj)
		}
	}
	found := bearer.FindSubmatch(p.bootstrap.Data[api.UserDataKey])
	if found == nil {
		return errors.New("the bootstrap document has no token")
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(found[1])}}
	if err := f.client.Create(ctx, review); err != nil {
		return fmt.Errorf("asking about the token of the bootstrap document: %w", err)
	}
	if !review.Status.Authenticated {
		return fmt.Errorf("the token of the bootstrap document is not valid: %s", review.Status.Error)
	}
	fresh, err := f.render(ctx, p, string(found[1]))
	if err != nil {
		return err
	}
	for stageName, secret := range map[string]*corev1.Secret{"bootstrap": &p.bootstrap, "provisioning": &p.provisioning} {
		if !bytes.Equal(fresh[stageName], secret.Data[api.UserDataKey]) {
			return fmt.Errorf("the %s document differs from a fresh render:\n%s\n--- fresh:\n%s", stageName, secret.Data[api.UserDataKey], fresh[stageName])
		}
	}
	return nil
}

// render runs the command as a person would, and returns the user-data by its stage.
func (f *fleet) render(ctx context.Context, p *pool, nodeToken string) (map[string][]byte, error) {
	dir, err := os.MkdirTemp(filepath.Dir(f.log), "render-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p.md.TypeMeta = metav1.TypeMeta{APIVersion: machines.GroupVersion.String(), Kind: "MachineDeployment"}
	values := map[string]any{
		"settings": map[string]any{
			"namespace": metav1.NamespaceSystem, "containerRuntime": "containerd", "clusterDNS": []string{"10.10.10.10"},
			"kubeletFeatureGates": map[string]bool{"RotateKubeletServerCertificate": true},
			"nodeNoProxy":         ".svc,.cluster.local,localhost,127.0.0.1",
			"kubernetesCACert":    string(f.cluster.Config.CAData),
		},
		"cluster": map[string]any{"server": testenv.Server, "apiServerToken": nodeToken, "bootstrapToken": p.token},
	}
	rendered := filepath.Join(dir, "rendered")
	args := []string{"render", "--repo", f.repo.Current(), "-o", "dir=" + rendered}
	for flag, content := range map[string]any{"--machine-deployment": p.md, "--cluster": values} {
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, strings.Trim(flag, "-")+".yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return nil, err
		}
		args = append(args, flag, path)
	}
	if out, err := exec.CommandContext(ctx, f.binary, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("osm-gitops %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	documents := map[string][]byte{}
	for _, stageName := range []string{"bootstrap", "provisioning"} {
		if documents[stageName], err = os.ReadFile(filepath.Join(rendered, stageName+".user-data")); err != nil {
			return nil, err
		}
	}
	return documents, nil
}
