package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const sourcesKind = "profilesources.gitops.k8c.io"

// A chart's life, by helm on a real API server, with a pool that is served: what install,
// upgrade to other values and to the next version, rollback and uninstall leave there.
func TestLife(t *testing.T) {
	l := &life{installation: newInstallation(t, "platform"), versions: t.TempDir()}
	first, next := l.version("1.0.0", ""), l.version("1.1.0", "fromTheNext")

	l.helm("install", "osm-gitops", first, "--create-namespace", "--set", "image.repository=registry.example.com/osm-gitops,image.tag=v1.0.0")
	l.served("osm-gitops")
	l.serves()

	l.helm("upgrade", "osm-gitops", first, "--reset-then-reuse-values", "--set", "replicas=3,networkPolicy.enabled=false", "--set", "hooks.enabled=true")
	l.served("osm-gitops")
	l.hasOtherValues()

	// Values that only the next version has are its defaults, which --reuse-values does not
	// give it.
	l.expects("no value from the next version", false)
	if _, errs, err := l.try("upgrade", "osm-gitops", next, "--reuse-values"); err == nil || !strings.Contains(errs, "fromTheNext.enabled is null") || !strings.Contains(errs, "--reset-then-reuse-values") {
		t.Errorf("--reuse-values does as well, or is refused otherwise: %v\n%s", err, errs)
	}
	l.helm("upgrade", "osm-gitops", next, "--reset-then-reuse-values")
	l.served("osm-gitops")
	l.hasOtherValues()
	l.expects("the next version", true)
	l.stores("changed-before-upgrade", "untouched")

	l.helm("rollback", "osm-gitops", "2")
	l.served("osm-gitops")
	l.hasOtherValues()
	l.expects("the version before", false)
	l.label("changed-before-upgrade")
	l.helm("upgrade", "osm-gitops", next, "--reset-then-reuse-values")
	l.expects("the next version again", true)
	for name, want := range map[string]bool{"changed-before-upgrade": false, "untouched": true} {
		if got := l.fieldOf(name); got != want {
			t.Errorf("ProfileSource %s has the field of the next version: %v", name, got)
		}
	}
	if got := l.revision("osm-gitops"); got != 5 {
		t.Errorf("the release has revision %d", got)
	}

	// Back to the chart before, and the kinds stay those of the next.
	l.helm("upgrade", "osm-gitops", first, "--reset-then-reuse-values", "--set", "crds.install=false")
	l.served("osm-gitops")
	l.kindHasField("the version before without its kinds", true)
	l.helm("upgrade", "osm-gitops", next, "--reset-then-reuse-values", "--set", "crds.install=true")
	l.served("osm-gitops")
	l.expects("the next version with its kinds", true)

	l.uninstall()
	l.helm("install", "osm-gitops", next, "--set", "image.repository=registry.example.com/osm-gitops,image.tag=v1.0.0")
	l.served("osm-gitops")
	l.untouched()
}

// life is an installation with a pool.
type life struct {
	*installation
	versions string
	secrets  []corev1.Secret // of the pool, when they were created
}

// version is a copy of the chart with a different version and, if field is not empty, with a new
// field in a kind, a new value and a new object.
func (l *life) version(version, field string) string {
	l.t.Helper()
	dir := filepath.Join(l.versions, version, "osm-gitops")
	if err := os.CopyFS(dir, os.DirFS(chartDir)); err != nil {
		l.t.Fatal(err)
	}
	edit := func(name, before, after string) {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			l.t.Fatal(err)
		}
		if strings.Count(string(text), before) != 1 {
			l.t.Fatalf("%s has %d times %q", name, strings.Count(string(text), before), before)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	edit("Chart.yaml", "\nversion: 0.0.0-dev", "\nversion: "+version)
	if field == "" {
		return dir
	}
	edit("files/crds/gitops.k8c.io_profilesources.yaml", "            properties:\n              builtin:", "            properties:\n              "+field+": {type: string}\n              builtin:")
	for _, name := range []string{"values.yaml", "files/values.yaml"} {
		edit(name, "\nobserve: false\n", "\nobserve: false\n"+field+": {enabled: true}\n")
	}
	edit("values.schema.json", `"properties": {
    "admission": {`, `"properties": {
    "`+field+`": {"type": "object"},
    "admission": {`)
	text := "{{ include \"osm-gitops.settle\" . }}{{ if .Values." + field + ".enabled }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: next, namespace: {{ .Release.Namespace }}}\n{{ end }}\n"
	if err := os.WriteFile(filepath.Join(dir, "templates/next.yaml"), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return dir
}

// serves runs the controller as the release has it until a pool has what it boots from. It
// asks for nothing that the chart does not let it. security.md 30
func (l *life) serves() {
	l.t.Helper()
	pools := l.cluster.Namespace(l.t)
	c := l.starts("osm-gitops")
	if err := l.cluster.ApplyObjects(l.t.Context(), pool(pools, "web", nil)); err != nil {
		l.t.Fatal(err)
	}
	for _, stage := range []string{"provisioning", "bootstrap"} {
		secret := corev1.Secret{}
		l.until(c, "the pool is served", func() error {
			return l.client.Get(l.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: "web-" + pools + "-" + stage + "-config"}, &secret)
		})
		l.secrets = append(l.secrets, secret)
	}
	c.Stop()
	l.allowed("osm-gitops")
}

// untouched checks that the Secrets of the pool have not changed.
func (l *life) untouched() {
	l.t.Helper()
	for _, was := range l.secrets {
		var is corev1.Secret
		if err := l.client.Get(l.t.Context(), client.ObjectKeyFromObject(&was), &is); err != nil || is.UID != was.UID || is.ResourceVersion != was.ResourceVersion {
			l.t.Errorf("Secret %s of the pool was written: %v", was.Name, err)
		}
	}
}

// hasOtherValues checks that the release has both the upgraded and the earlier values.
func (l *life) hasOtherValues() {
	l.t.Helper()
	var d appsv1.Deployment
	key := client.ObjectKey{Namespace: l.namespace, Name: "osm-gitops"}
	if err := l.client.Get(l.t.Context(), key, &d); err != nil {
		l.t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	if *d.Spec.Replicas != 3 || c.Image != "registry.example.com/osm-gitops:v1.0.0" || !slices.Contains(c.Args, "--hooks-address=:9292") {
		l.t.Errorf("the Deployment has %d replicas of %s with %q", *d.Spec.Replicas, c.Image, c.Args)
	}
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: l.namespace, Name: "osm-gitops-hooks"}, &corev1.Service{}); err != nil {
		l.t.Error(err)
	}
	if err := l.client.Get(l.t.Context(), key, &networkingv1.NetworkPolicy{}); client.IgnoreNotFound(err) != nil || err == nil {
		l.t.Errorf("the NetworkPolicy is there: %v", err)
	}
}

// kindHasField looks whether a kind is that of the next version.
func (l *life) kindHasField(what string, next bool) {
	l.t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Name: sourcesKind}, &crd); err != nil {
		l.t.Fatal(err)
	}
	if _, got := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["fromTheNext"]; got != next {
		l.t.Errorf("%s: the kind has its field: %v", what, got)
	}
}

// expects checks that the kind and the objects are those of the next version, and that no object
// of the pool was written.
func (l *life) expects(what string, next bool) {
	l.t.Helper()
	l.kindHasField(what, next)
	err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: l.namespace, Name: "next"}, &corev1.ConfigMap{})
	if client.IgnoreNotFound(err) != nil {
		l.t.Fatal(err)
	}
	if (err == nil) != next {
		l.t.Errorf("%s: its object is there: %v", what, err == nil)
	}
	l.untouched()
}

// stores makes ProfileSources that use what only the next version has.
func (l *life) stores(names ...string) {
	l.t.Helper()
	for _, name := range names {
		l.until(nil, "the field is served", func() error {
			o := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource", "metadata": map[string]any{"name": name, "namespace": l.namespace},
				"spec": map[string]any{"fromTheNext": "yes", "suspend": true, "git": map[string]any{"url": "https://git.example.com/osps.git"}},
			}}
			// Without the field it is refused, until the API server has taken up the kind.
			return l.client.Create(l.t.Context(), o, client.FieldValidation(metav1.FieldValidationStrict))
		})
	}
}

func (l *life) fieldOf(name string) bool {
	l.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(api.GroupVersion.WithKind("ProfileSource"))
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, o); err != nil {
		l.t.Fatal(err)
	}
	_, found, _ := unstructured.NestedString(o.Object, "spec", "fromTheNext")
	return found
}

// label writes an object, once the API server has taken up the kind of the version before.
func (l *life) label(name string) {
	l.t.Helper()
	l.until(nil, "the field is not served any more", func() error {
		if l.fieldOf(name) {
			return os.ErrExist
		}
		return nil
	})
	o := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	if err := l.client.Patch(l.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))); err != nil {
		l.t.Fatal(err)
	}
}

// uninstall removes the release, except what nodes boot from and the objects of our kinds.
func (l *life) uninstall() {
	l.t.Helper()
	list := l.manifest("osm-gitops")
	l.helm("uninstall", "osm-gitops")
	var stay []*unstructured.Unstructured
	goes := []string{}
	for _, o := range list {
		if o.GetKind() == "CustomResourceDefinition" || o.GetNamespace() == api.NamespaceCloudInitSettings && o.GetName() != "osm-gitops" || o.GetKind() == "Namespace" {
			stay = append(stay, o)
		} else {
			goes = append(goes, o.GetKind()+" "+o.GetName())
		}
	}
	slices.Sort(goes)
	if missing := l.missing(stay); len(missing) > 0 || len(stay) != 5+5 {
		l.t.Errorf("of %d objects that stay are gone %q", len(stay), missing)
	}
	if diff := cmp.Diff(goes, l.missing(list)); diff != "" || len(goes) < 20 {
		l.t.Errorf("%d objects should be gone; (-should be +are):\n%s", len(goes), diff)
	}
	l.untouched()
	var sources api.ProfileSourceList
	if err := l.client.List(l.t.Context(), &sources, client.InNamespace(l.namespace)); err != nil || len(sources.Items) != 3 {
		l.t.Errorf("of three ProfileSources are there %d: %v", len(sources.Items), err)
	}
	// A node of a fleet that shares a token reads its Secret still.
	var token corev1.Secret
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: "cloud-init-getter-token"}, &token); err != nil {
		l.t.Fatal(err)
	}
	node, err := client.New(&rest.Config{Host: l.cluster.Config.Host, BearerToken: string(token.Data["token"]), TLSClientConfig: rest.TLSClientConfig{CAData: l.cluster.Config.CAData}}, client.Options{Scheme: l.client.Scheme()})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := node.Get(l.t.Context(), client.ObjectKeyFromObject(&l.secrets[0]), &corev1.Secret{}); err != nil {
		l.t.Errorf("a node reads its Secret no more: %v", err)
	}
}
