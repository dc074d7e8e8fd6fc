package ownership

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// noting is a Resolver on the real API server, with profiles that others apply. Its clock
// does not advance.
type noting struct {
	t         *testing.T
	client    client.Client
	namespace string
	recorder  *events.FakeRecorder
	noter     *Resolver
}

func newNoting(t *testing.T) *noting {
	t.Helper()
	c := cluster.Shared(t)
	if err := c.Apply(t.Context(), "../../../test/flux/crds", "../../../test/argocd/crds"); err != nil {
		t.Fatal(err)
	}
	n := &noting{t: t, client: c.Client(t), namespace: c.Namespace(t), recorder: events.NewFakeRecorder(20)}
	n.noter = &Resolver{
		Client: n.client, Live: n.client, Recorder: n.recorder, ArgoNamespace: n.namespace,
		Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	return n
}

func (n *noting) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// apply writes profile osp-a as an applier does.
func (n *noting) apply(manager, version string, labels, annotations map[string]string) {
	n.t.Helper()
	u := n.object(`{apiVersion: operatingsystemmanager.k8c.io/v1alpha1, kind: OperatingSystemProfile,
		spec: {osName: ubuntu, osVersion: "24.04", version: ` + version + `, supportedCloudProviders: [{name: aws}], bootstrapConfig: {}, provisioningConfig: {}}}`)
	u.SetName("osp-a")
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	n.must(n.client.Apply(n.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership))
}

func (n *noting) object(text string) *unstructured.Unstructured {
	n.t.Helper()
	u := &unstructured.Unstructured{}
	n.must(yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", "")), &u.Object))
	u.SetNamespace(n.namespace)
	return u
}

// kustomization makes one that has applied a revision, and lists the profile.
func (n *noting) kustomization(name, revision string) {
	n.t.Helper()
	u := n.object("{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, spec: {interval: 1m, prune: true, path: ./p, sourceRef: {kind: GitRepository, name: none}}}")
	u.SetName(name)
	n.must(n.client.Create(n.t.Context(), u))
	body := `{"status":{"lastAppliedRevision":"` + revision + `","inventory":{"entries":[{"id":"` + n.namespace + `_osp-a_operatingsystemmanager.k8c.io_OperatingSystemProfile","v":"v1alpha1"}]}}}`
	n.must(n.client.Status().Patch(n.t.Context(), u, client.RawPatch(types.MergePatchType, []byte(body))))
}

// application makes one that has synced the profile.
func (n *noting) application(name string) {
	n.t.Helper()
	u := n.object(`{apiVersion: argoproj.io/v1alpha1, kind: Application, spec: {project: default, destination: {}, source: {repoURL: "https://git.example.com/a.git", path: p}},
		status: {sync: {status: Synced, revision: r7, comparedTo: {destination: {}, source: {repoURL: "https://git.example.com/a.git", path: p}}},
		resources: [{group: operatingsystemmanager.k8c.io, kind: OperatingSystemProfile, namespace: ` + n.namespace + `, name: osp-a, status: Synced}]}}`)
	u.SetName(name)
	n.must(n.client.Create(n.t.Context(), u))
}

func (n *noting) flux(name string) map[string]string {
	return map[string]string{labelFluxName: name, labelFluxNamespace: n.namespace}
}

func (n *noting) argo(name string) map[string]string {
	return map[string]string{annotationTracking: name + ":" + osm.GroupVersion.Group + "/OperatingSystemProfile:" + n.namespace + "/osp-a"}
}

func (n *noting) profile() *osm.OperatingSystemProfile {
	n.t.Helper()
	var osp osm.OperatingSystemProfile
	n.must(n.client.Get(n.t.Context(), client.ObjectKey{Namespace: n.namespace, Name: "osp-a"}, &osp))
	return &osp
}

// of resolves the origin of the current profile, and records it.
func (n *noting) of() (Origin, error) {
	n.t.Helper()
	osp := n.profile()
	f, err := n.noter.ResolveOrigin(n.t.Context(), osp)
	if after := n.profile(); after.ResourceVersion != osp.ResourceVersion {
		n.t.Errorf("resolving the origin changed the profile: %v", after.Annotations)
	}
	_, reconcileErr := n.noter.Reconcile(n.t.Context(), crreconcile.Request{NamespacedName: client.ObjectKeyFromObject(osp)})
	n.must(reconcileErr)
	return f, err
}

// Changes over the applied content are in no commit, even if the applier reports its last
// one; content that is applied again is.
func TestEditedByHand(t *testing.T) {
	n := newNoting(t)
	n.kustomization("fleet", "r1")
	n.apply("kustomize-controller", "v1.0.0", n.flux("fleet"), nil)
	if f, err := n.of(); err != nil || f.Revision != "r1" {
		t.Fatalf("got %+v, %v", f, err)
	}
	edited := n.profile()
	edited.Spec.Version, edited.Spec.OSVersion = "v1.0.1", "26.04"
	n.must(n.client.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
	f, err := n.of()
	if err != nil || f.Revision != "" || len(f.By) != 1 || !strings.Contains(f.Why, "kubectl-edit") {
		t.Errorf("of what was edited by hand is said %+v, %v", f, err)
	}
	if a := n.profile().Annotations; a[api.AnnotationVersion] != "v1.0.0" {
		t.Errorf("it is noted where the edit is from: %v", a)
	}
	n.apply("kustomize-controller", "v1.1.0", n.flux("fleet"), nil)
	if f, err := n.of(); err != nil || f.Revision != "r1" {
		t.Errorf("applied again, it is said %+v, %v", f, err)
	}
}

// After a change from Flux to Argo CD objects still have Flux's labels: pools are not
// rejected for that, and a warning is emitted.
func TestMarksThatAreLeft(t *testing.T) {
	n := newNoting(t)
	n.apply("kustomize-controller", "v1.0.0", n.flux("gone"), nil)
	n.application("osps")
	n.apply("argocd-controller", "v1.1.0", nil, n.argo("osps"))
	f, err := n.of()
	if err != nil || f.Revision != "r7" || f.Repository != "https://git.example.com/a.git" {
		t.Fatalf("got %+v, %v", f, err)
	}
	select {
	case told := <-n.recorder.Events:
		if !strings.Contains(told, "Kustomization "+n.namespace+"/gone") || !strings.Contains(told, "Application "+n.namespace+"/osps") {
			t.Errorf("told %q", told)
		}
	default:
		t.Error("nobody was told")
	}
}

// Two are two until one gives it up, from then on it is the other's, at once.
func TestTwoUntilOneLeaves(t *testing.T) {
	n := newNoting(t)
	n.kustomization("fleet", "r1")
	n.application("osps")
	n.apply("kustomize-controller", "v1.0.0", n.flux("fleet"), n.argo("osps"))
	var both *TwoError
	if _, err := n.of(); !errors.As(err, &both) {
		t.Fatalf("got %v", err)
	}
	n.apply("kustomize-controller", "v1.0.0", n.flux("fleet"), nil)
	if f, err := n.of(); err != nil || f.Revision != "r1" {
		t.Errorf("with one left it is said %+v, %v", f, err)
	}
}

// The labels name the last of two Kustomizations; the warning names the previous one.
func TestTwoKustomizations(t *testing.T) {
	n := newNoting(t)
	n.kustomization("one", "r1")
	n.kustomization("two", "r2")
	n.apply("kustomize-controller", "v1.0.0", n.flux("one"), nil)
	if f, err := n.of(); err != nil || f.Revision != "r1" {
		t.Fatalf("got %+v, %v", f, err)
	}
	n.apply("kustomize-controller", "v1.0.0", n.flux("two"), nil)
	if f, err := n.of(); err != nil || f.Revision != "r2" || !strings.Contains(f.Warning, "Kustomization "+n.namespace+"/one") {
		t.Errorf("got %+v, %v", f, err)
	}
}

// Identical content that existed before the applier applied it counts as applied.
func TestManagers(t *testing.T) {
	entry := func(manager, at, fields string) metav1.ManagedFieldsEntry {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: when}, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const marked, unmarked = `{"f:metadata":{"f:labels":{"f:kustomize.toolkit.fluxcd.io/name":{}}},"f:spec":{"f:version":{}}}`, `{"f:spec":{".":{},"f:version":{},"f:osName":{}}}`
	for name, c := range map[string]struct {
		at   string
		want int
	}{"before": {"2026-01-01T00:00:00Z", 0}, "after": {"2026-01-03T00:00:00Z", 1}} {
		osp := profileWith(nil, nil)
		osp.ManagedFields = []metav1.ManagedFieldsEntry{entry("kustomize-controller", "2026-01-02T00:00:00Z", marked), entry("kubectl", c.at, unmarked), entry("osm-gitops", "2026-01-04T00:00:00Z", `{"f:metadata":{}}`)}
		if by := managersOf(osp, Applier{Kind: Kustomization}); len(by.edited) != c.want || !by.marked[fluxManager] {
			t.Errorf("what was written %s: %+v", name, by)
		}
	}
}
