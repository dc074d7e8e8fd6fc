package chart

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// elsewhere are what the page says is left that one cluster with one pool has none of.
var elsewhere = map[string]string{
	"NodeProvenance <name>":                                        "needs a node",
	"Lease operating-system-manager-shard-<digits>":                "is a shard's",
	"Lease osm-gitops-observe":                                     "is an observer's",
	"Lease operating-system-manager-worker-manager":                "is in a worker cluster",
	"Lease operating-system-manager-worker-manager-shard-<digits>": "is in a worker cluster",
	"Secret <pool>-<namespace>-inputs":                             "is for pools with credentials",
	"Secret edge-provider-script-<pool>-<namespace>":               "is for the provider edge",
}

// After an uninstall exactly the objects that the page lists remain; after the page's further
// deletions, none.
func TestUninstallLeaves(t *testing.T) {
	l := &life{installation: newInstallation(t, "platform")}
	if err := l.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}); err != nil {
		t.Fatal(err)
	}
	before := l.everything()
	l.helm("install", "osm-gitops", chartDir, "--set", settings+",flags.publish-snapshot=true")
	l.serves()
	md := pool(strings.TrimSuffix(strings.TrimPrefix(l.secrets[0].Name, "web-"), "-provisioning-config"), "web", nil)
	before["MachineDeployment "+md.GetNamespace()+"/web"], before["Namespace /"+md.GetNamespace()] = true, true
	c := l.starts("osm-gitops")
	if err := l.client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"versions":{"kubelet":"1.35.1"}}}}}`))); err != nil {
		t.Fatal(err)
	}
	l.until(c, "what the pool had is kept", func() error {
		var records appsv1.ControllerRevisionList
		if err := l.client.List(t.Context(), &records, client.InNamespace(l.namespace)); err != nil || len(records.Items) > 0 {
			return err
		}
		return errors.New("there is no record")
	})
	l.until(c, "the snapshot is there", func() error {
		return l.client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: "osm-gitops-snapshot"}, &corev1.ConfigMap{})
	})
	c.Stop()
	l.helm("uninstall", "osm-gitops")

	left, seen := leftOnThePage(t, l.namespace), map[string]bool{}
	for o := range l.everything() {
		named := before[o]
		for what, pattern := range left {
			if pattern.MatchString(o) {
				named, seen[what] = true, true
			}
		}
		if !named {
			t.Errorf("%s is left, and %s does not say so", o, upgradePage)
		}
	}
	for what := range left {
		if seen[what] == (elsewhere[what] != "") {
			t.Errorf("%s is left: %v, and in elsewhere: %q", what, seen[what], elsewhere[what])
		}
	}
	if len(left) < 20 {
		t.Errorf("%s names %d", upgradePage, len(left))
	}

	l.helm("install", "osm-gitops", chartDir, "--set", settings+",flags.disable-default-osps=true")
	c = l.starts("osm-gitops")
	if err := l.client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	l.gone(md)
	l.gone(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: builtinSource}})
	c.Stop()
	l.helm("uninstall", "osm-gitops")
	l.deletes()
	l.until(nil, "nothing is left", func() error {
		var errs []error
		for o := range l.everything() {
			if !before[o] && !strings.HasPrefix(o, "Secret kube-system/bootstrap-token-") {
				errs = append(errs, errors.New(o))
			}
		}
		return errors.Join(errs...)
	})
}

// deletes does what the last commands on the page do, in the namespace of this release.
func (i *installation) deletes() {
	i.t.Helper()
	all := blocks(i.t, upgradePage)
	const want = "kubectl delete -f deploy/crds\nkubectl delete namespace cloud-init-settings\n" +
		"kubectl -n kube-system delete secrets,configmaps,controllerrevisions -l app.kubernetes.io/managed-by=osm-gitops\n" +
		"kubectl -n kube-system delete leases operating-system-manager operating-system-manager-worker-manager --ignore-not-found"
	if got := all[len(all)-1]; got != want {
		i.t.Fatalf("the page says to do\n%s\nand this test does\n%s", got, want)
	}
	ctx, here := i.t.Context(), client.InNamespace(i.namespace)
	ours := client.MatchingLabels{"app.kubernetes.io/managed-by": "osm-gitops"}
	errs := []error{i.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})}
	for _, o := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &appsv1.ControllerRevision{}} {
		errs = append(errs, i.client.DeleteAllOf(ctx, o, here, ours))
	}
	for _, name := range []string{"operating-system-manager", "operating-system-manager-worker-manager"} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}}
		errs = append(errs, client.IgnoreNotFound(i.client.Delete(ctx, lease)))
	}
	var crds apiextensionsv1.CustomResourceDefinitionList
	errs = append(errs, i.client.List(ctx, &crds))
	for _, crd := range crds.Items {
		if crd.Spec.Group == api.GroupVersion.Group || crd.Spec.Group == osm.GroupVersion.Group {
			errs = append(errs, i.client.Delete(ctx, &crd))
		}
	}
	if err := errors.Join(errs...); err != nil {
		i.t.Fatal(err)
	}
}

// leftOnThePage are the objects in the table of what is left, as patterns of "Kind namespace/name".
func leftOnThePage(t *testing.T, namespace string) map[string]*regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile(upgradePage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| left | namespace | what it is |\n|---|---|---|\n")
	if !found {
		t.Fatalf("%s has no table of what is left", upgradePage)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	where := map[string]string{"": "", "the release's": namespace, "`cloud-init-settings`": api.NamespaceCloudInitSettings, "`kube-system`": metav1.NamespaceSystem}
	out := map[string]*regexp.Regexp{}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		kinds, names, _ := strings.Cut(cells[1], "`")
		in, ok := where[strings.TrimSpace(cells[2])]
		if !ok {
			t.Fatalf("%q is no namespace of the table", cells[2])
		}
		for kind := range strings.SplitSeq(kinds, ",") {
			for i, name := range strings.Split(names, "`") {
				if i%2 == 1 {
					continue // between two names
				}
				kind, name = strings.TrimSpace(kind), strings.TrimSpace(name)
				if name == "" {
					continue
				}
				pattern := regexp.MustCompile(`<[a-z]+>`).ReplaceAllString(regexp.QuoteMeta(name), ".+")
				out[kind+" "+name] = regexp.MustCompile("^" + kind + " " + in + "/" + pattern + "$")
			}
		}
	}
	return out
}

// everything are the objects that there are, as "Kind namespace/name", but for events and what
// Kubernetes makes for each namespace and each kind.
func (i *installation) everything() map[string]bool {
	i.t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(i.cluster.Config)
	if err != nil {
		i.t.Fatal(err)
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		i.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Kind == "Event" || r.Kind == "APIService" || r.Kind == "ComponentStatus" {
				continue
			}
			var objects metav1.PartialObjectMetadataList
			objects.SetGroupVersionKind(schema.FromAPIVersionAndKind(list.GroupVersion, r.Kind+"List"))
			if err := i.client.List(i.t.Context(), &objects); apierrors.IsNotFound(err) {
				continue // a kind that has just gone
			} else if err != nil {
				i.t.Fatalf("listing %s: %v", r.Name, err)
			}
			for _, o := range objects.Items {
				if o.Name != "kube-root-ca.crt" && (o.Name != "default" || r.Kind != "ServiceAccount") {
					out[r.Kind+" "+o.Namespace+"/"+o.Name] = true
				}
			}
		}
	}
	return out
}
