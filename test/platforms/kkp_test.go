package platforms

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// kkpUser is the user of the kubeconfig that KKP gives to operating-system-manager.
const kkpUser = "operating-system-manager"

// kkpManager reconciles the definitions of a user cluster.
const kkpManager = "user-cluster-controller-manager"

// replaceKinds replaces the specs of both definitions, by those of KKP and by ours in turn, until the
// context ends. It returns the number of replacements.
func replaceKinds(ctx context.Context, cl client.Client, every time.Duration) (*atomic.Int64, <-chan error) {
	var count atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			theirs, err := CRDs()
			if err != nil {
				return err
			}
			for turn := 0; ; turn++ {
				for _, crd := range theirs {
					want := crd
					if turn%2 == 1 {
						ours, err := Read("deploy", "crds", crd.GetName()[strings.Index(crd.GetName(), ".")+1:]+"_"+strings.Split(crd.GetName(), ".")[0]+".yaml")
						if err != nil {
							return err
						}
						want = ours[0]
					}
					if err := replaceKind(ctx, cl, want); err != nil && ctx.Err() == nil {
						return err
					}
				}
				count.Add(1)
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(every):
				}
			}
		}()
	}()
	return &count, done
}

// replaceKind writes the spec of a definition, as KKP does.
func replaceKind(ctx context.Context, cl client.Client, want *unstructured.Unstructured) error {
	for {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(want.GroupVersionKind())
		if err := cl.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
			return err
		}
		live.Object["spec"] = want.DeepCopy().Object["spec"]
		if err := cl.Update(ctx, live, client.FieldOwner(kkpManager)); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// newKKP is a user cluster with KKP's definitions and permissions, in which programs of this machine
// are KKP's user.
func newKKP(t *testing.T) *e2e.System {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Audit: true})
	s := e2e.NewSystemOn(t, c)
	if err := c.Apply(t.Context(), e2e.RepoPath("test/platforms/kkp/rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	theirs, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range theirs {
		if err := replaceKind(t.Context(), s.Client, crd); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = kkpUser
	}
	s.Identity = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, s.Identity); err != nil {
		t.Fatal(err)
	}
	return s
}

// The manifest and the image can be set in any order, on the way there and back: with the manifest,
// operating-system-manager can do what it needs, and without it, the controller waits.
func TestKKPInAnyOrder(t *testing.T) {
	s := newKKP(t)
	cfg := rest.CopyConfig(s.Cluster.Config)
	cfg.Impersonate.UserName = kkpUser
	reference, err := client.New(cfg, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	manifest := func() {
		t.Helper()
		if err := s.Cluster.Apply(t.Context(), e2e.RepoPath("deploy/kkp/user-cluster.yaml")); err != nil {
			t.Fatal(err)
		}
		s.Eventually("the policy to be in force", func() error {
			foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "foreign"}}
			if err := reference.Create(t.Context(), foreign, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "osm-gitops-controller") {
				return fmt.Errorf("a foreign Secret is not refused: %w", err)
			}
			return nil
		})
	}
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Pool("web", "osp-a")

	// The image first.
	health := e2e.FreeAddress(t)
	s.Start("--leader-elect=true", "--health-probe-address="+health)
	s.Eventually("the controller to lack permissions", func() error {
		s.LogMu.Lock()
		defer s.LogMu.Unlock()
		if !strings.Contains(s.Log.String(), "forbidden") {
			return errors.New("the log does not say so")
		}
		return nil
	})
	manifest()
	tokensEnd(t, s, reference)
	s.Served("web", "v1.0.0")
	_, out, errs := s.Runs("doctor", "--kubeconfig", s.Cluster.Kubeconfig, "--namespace", e2e.Namespace)
	for _, says := range []string{
		"leave it to KKP, which applies its own again: pools are served with it",
		"KKP runs operating-system-manager in the seed, where this command does not look",
		"set --user (KKP: operating-system-manager)",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("doctor does not say %q:\n%s%s", says, out, errs)
		}
	}
	if strings.Contains(out, "-f deploy/crds") {
		t.Errorf("doctor lets users apply what KKP replaces:\n%s", out)
	}
	s.Stop()

	// The image back first, with the manifest.
	worksAsReference(t, s, reference)
	status, out, errs := s.Runs("handback", "--kubeconfig", s.Cluster.Kubeconfig, "--namespace", e2e.Namespace, "--force")
	if status != 0 {
		t.Fatalf("handing back ended with %d: %s%s", status, out, errs)
	}
	worksAsReference(t, s, reference)

	// The manifest first, again.
	manifest()
	worksAsReference(t, s, reference)
	s.Source()
	s.Start("--leader-elect=true")
	s.Served("web", "v1.0.0")
	s.Run("default profile of a datacenter", func(*testing.T) { defaultOfDatacenter(s) })
}

// worksAsReference does what operating-system-manager does with the permissions of a platform: it
// writes its profiles, and creates the objects of a pool and renews its token. The requests name no
// field manager.
func worksAsReference(t *testing.T, s *e2e.System, reference client.Client) {
	t.Helper()
	ctx, name := t.Context(), "web-"+s.Pools
	osp := &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "osp-ubuntu"}}
	for _, version := range []string{"v1.11.2", "v1.11.3"} {
		docs, err := profile.Decode("a.yaml", []byte(e2e.OSP(osp.Name, version, "echo default")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := controllerutil.CreateOrUpdate(ctx, reference, osp, func() error { osp.Spec = docs[0].Spec; return nil }); err != nil {
			t.Errorf("writing a profile: %v", err)
		}
	}
	token := bootstrapToken(s, "bcdfgh")
	if err := reference.Create(ctx, token); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating a token: %v", err)
	}
	if err := reference.Get(ctx, client.ObjectKeyFromObject(token), token); err != nil {
		t.Fatal(err)
	}
	token.Data["expiration"] = []byte(time.Now().UTC().Add(61 * time.Minute).Format(time.RFC3339))
	if err := reference.Update(ctx, token); err != nil {
		t.Errorf("renewing a token: %v", err)
	}
	for _, obj := range []client.Object{
		&osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name + "-config"}, Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name + "-provisioning-config"}, Data: map[string][]byte{api.UserDataKey: []byte("#cloud-config\n")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name + "-bootstrap-config"}, Data: map[string][]byte{api.UserDataKey: []byte("#cloud-config\n")}},
	} {
		obj.SetAnnotations(map[string]string{api.AnnotationRevisionFor: "", api.AnnotationMDAnnotationsHash: "0", api.AnnotationOSPVersion: "v0.9.0"})
		if err := client.IgnoreNotFound(reference.Delete(ctx, obj)); err != nil {
			t.Errorf("deleting %s: %v", obj.GetName(), err)
		}
		if err := reference.Create(ctx, obj); err != nil {
			t.Errorf("creating %s: %v", obj.GetName(), err)
		}
	}
	md := &unstructured.Unstructured{}
	md.SetGroupVersionKind(machines.GroupVersion.WithKind("MachineDeployment"))
	get(t, reference, s.Pools, "web", md)
	md.SetFinalizers([]string{"kubermatic.io/cleanup-operating-system-configs"})
	if err := unstructured.SetNestedField(md.Object, map[string]any{}, "spec", "template", "spec", "metadata"); err != nil { // a zero value, as Go programs write
		t.Fatal(err)
	}
	if err := reference.Update(ctx, md); err != nil {
		t.Errorf("writing the finalizer of a pool: %v", err)
	}
}

// bootstrapToken is one of a pool, for an hour.
func bootstrapToken(s *e2e.System, id string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Labels: map[string]string{"machinedeployment.k8s.io/name": s.Pools + "-reference"}},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte("bcdfghjklmnpqrst"), "description": []byte("bootstrap token for reference"),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"auth-extra-groups": []byte("system:bootstrappers:machine-controller:default-node-token"), "expiration": []byte(time.Now().UTC().Add(time.Hour).Format(time.RFC3339)),
		},
	}
}

// tokensEnd checks that the user cannot have a bootstrap token without end, with a field manager or
// without, and whatever it writes into the fields from which the policy takes the time.
func tokensEnd(t *testing.T, s *e2e.System, reference client.Client) {
	t.Helper()
	token := bootstrapToken(s, "zzzzz2")
	if err := reference.Create(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.NoError(s.Client.Delete(context.WithoutCancel(t.Context()), token)) })
	entry := func(manager, field string, year int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &metav1.Time{Time: time.Date(year, 12, 31, 23, 59, 0, 0, time.UTC)},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:%s":{}}}`, field)),
		}
	}
	token.ManagedFields = []metav1.ManagedFieldsEntry{entry("a", "description", 2000), entry(api.FieldManager, "expiration", 2098)}
	err := reference.Update(t.Context(), token)
	if m := token.ManagedFields; err != nil || len(m) != 2 || m[0].Time.Year() != 2000 || m[1].Time.Year() != 2098 {
		t.Fatalf("the times are not stored: %v, %v", err, m)
	}
	for name, change := range map[string]func(*corev1.Secret){
		"no end":        func(o *corev1.Secret) { delete(o.Data, "expiration") },
		"no time":       func(o *corev1.Secret) { o.Data["expiration"] = []byte("never") },
		"no length":     func(o *corev1.Secret) { o.Data["expiration"] = nil },
		"a distant end": func(o *corev1.Secret) { o.Data["expiration"] = []byte("2099-01-01T00:00:00Z") },
		"a distant end and a forged time": func(o *corev1.Secret) {
			o.Data["expiration"] = []byte("2099-01-01T00:00:00Z")
			o.ManagedFields = []metav1.ManagedFieldsEntry{entry("b", "expiration", 2098)}
		},
	} {
		for _, options := range [][]client.CreateOption{{client.DryRunAll}, {client.DryRunAll, client.FieldOwner(api.FieldManager)}} {
			created := bootstrapToken(s, "zzzzz3")
			change(created)
			if err := reference.Create(t.Context(), created, options...); err == nil || !strings.Contains(err.Error(), "osm-gitops-controller") {
				t.Errorf("a token with %s is not refused: %v", name, err)
			}
		}
		for _, options := range [][]client.UpdateOption{{client.DryRunAll}, {client.DryRunAll, client.FieldOwner(api.FieldManager)}} {
			updated := token.DeepCopy()
			change(updated)
			if err := reference.Update(t.Context(), updated, options...); err == nil || !strings.Contains(err.Error(), "osm-gitops-controller") {
				t.Errorf("a token that gets %s is not refused: %v", name, err)
			}
		}
	}
	for _, options := range [][]client.UpdateOption{{client.DryRunAll}, {client.DryRunAll, client.FieldOwner(api.FieldManager)}} {
		renewed := token.DeepCopy()
		renewed.Data["expiration"] = []byte(time.Now().UTC().Add(61 * time.Minute).Format(time.RFC3339))
		if err := reference.Update(t.Context(), renewed, options...); err != nil {
			t.Errorf("renewing a token: %v", err)
		}
	}
}

// With the permissions that KKP grants and deploy/kkp, the controller serves pools as KKP's user.
// While the definitions are replaced again and again every pool gets each version, and none is
// rejected. An event and doctor say who installs them.
func TestKKP(t *testing.T) {
	s := newKKP(t)
	c := s.Cluster
	if err := c.Apply(t.Context(), e2e.RepoPath("deploy/kkp/user-cluster.yaml")); err != nil {
		t.Fatal(err)
	}
	const pools = 50
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	for i := range pools {
		s.Pool(fmt.Sprintf("pool-%02d", i), "osp-a")
	}
	s.Start("--leader-elect=true")
	for i := range pools {
		s.Served(fmt.Sprintf("pool-%02d", i), "v1.0.0")
	}
	said := "CustomResourceDefinition operatingsystemconfigs.operatingsystemmanager.k8c.io differs"
	s.Eventually("the event about the definitions", func() error {
		for _, note := range s.EventsIn(e2e.Namespace, "osps", api.EventForeignKind) {
			if strings.Contains(note, said) && strings.Contains(note, `as written by "`+kkpManager+`"`) {
				return nil
			}
		}
		return fmt.Errorf("events are %q", s.EventsIn(e2e.Namespace, "osps", api.EventForeignKind))
	})
	if _, out, errs := s.Runs("doctor", "--kubeconfig", c.Kubeconfig, "--namespace", e2e.Namespace); !strings.Contains(out, said) || !strings.Contains(out, `"`+kkpManager+`" at `) {
		t.Errorf("doctor says\n%s%s", out, errs)
	}
	for _, args := range [][]string{nil, {"--user", "operating-system-manager"}} {
		_, out, errs := s.Runs(append([]string{"doctor", "--kubeconfig", c.Kubeconfig, "--namespace", e2e.Namespace}, args...)...)
		if !strings.Contains(out, "osm-gitops-controller of this release limits what operating-system-manager can write") || strings.Contains(out, "deploy/controller-policy.yaml") {
			t.Errorf("doctor %q about KKP's user says\n%s%s", args, out, errs)
		}
	}

	replacing, stop := context.WithCancel(t.Context())
	defer stop()
	every, turns := 200*time.Millisecond, int64(10)
	if os.Getenv("OSM_SOAK") == "1" {
		every, turns = time.Second, 120
	}
	count, done := replaceKinds(replacing, s.Client, every)
	for version := 1; version <= 3 || count.Load() < turns; version++ {
		s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", fmt.Sprintf("v1.%d.0", version), fmt.Sprintf("echo %d", version))})
		for i := range pools {
			s.Served(fmt.Sprintf("pool-%02d", i), fmt.Sprintf("v1.%d.0", version))
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.Eventually("every pool to be ready", func() error {
		var list osm.OperatingSystemConfigList
		if err := s.Client.List(t.Context(), &list, client.InNamespace(e2e.Namespace)); err != nil {
			return err
		}
		var err error
		for _, osc := range list.Items {
			var secret corev1.Secret
			key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: strings.TrimSuffix(osc.Name, "-config") + "-bootstrap-config"}
			err = errors.Join(err, s.Client.Get(t.Context(), key, &secret))
			if a := osc.Annotations; a[api.AnnotationRefused] != "" || a[api.AnnotationInputDigest] != secret.Annotations[api.AnnotationInputDigest] {
				err = errors.Join(err, fmt.Errorf("%s is not ready: %q", osc.Name, a[api.AnnotationRefused]))
			}
		}
		if len(list.Items) != pools {
			err = errors.Join(err, fmt.Errorf("there are %d configurations", len(list.Items)))
		}
		return err
	})
	for i := range pools {
		for _, reason := range []string{api.EventWriteRefused, api.EventProfileError} {
			if notes := s.Events(fmt.Sprintf("pool-%02d", i), reason); len(notes) > 0 {
				t.Errorf("pool-%02d has the events %q", i, notes)
			}
		}
	}
	// What was allowed by KKP alone, or by deploy/kkp, was enough.
	s.Stop()
	log, err := os.ReadFile(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `"impersonatedUser":{"username":"`+kkpUser+`"`) {
			continue
		}
		asked++
		if strings.Contains(line, `"authorization.k8s.io/decision":"forbid"`) || strings.Contains(line, "denied request") {
			t.Errorf("forbidden was %s", line)
		}
	}
	if asked < pools {
		t.Errorf("the audit log has %d requests of the controller", asked)
	}
}
