package fleet_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet/bootcounts"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// Machines without a Node are listed in pages with their pool and the stage that fails; those that
// are deleted or joined are not.
func TestListUnjoined(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(client.IgnoreAlreadyExists(cl.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})))
	create := func(kind, name, ownerKind, owner string, uid any) *unstructured.Unstructured {
		t.Helper()
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": kind, "metadata": map[string]any{
			"namespace": ns, "name": name, "ownerReferences": []any{map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": ownerKind, "name": owner, "uid": uid}},
		}, "spec": map[string]any{}}}
		do(cl.Create(t.Context(), obj))
		t.Cleanup(func() { do(client.IgnoreNotFound(cl.Delete(context.WithoutCancel(t.Context()), obj))) })
		return obj
	}
	set := create("MachineSet", "web-1", "MachineDeployment", "web", "1")
	failing := create("Machine", "failing", "MachineSet", "web-1", string(set.GetUID()))
	create("Machine", "silent", "MachineSet", "web-1", string(set.GetUID()))
	create("Machine", "foreign", "MachineSet", "other", "2")
	joined := create("Machine", "joined", "MachineSet", "web-1", string(set.GetUID()))
	do(unstructured.SetNestedField(joined.Object, "n", "status", "nodeRef", "name"))
	do(cl.Status().Update(t.Context(), joined))
	report := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-web-" + ns, Annotations: map[string]string{api.AnnotationPool: ns + "/web"}}}
	do(cl.Create(t.Context(), report))
	t.Cleanup(func() { do(cl.Delete(context.WithoutCancel(t.Context()), report)) })
	stage := func(stage api.BootStage, outcome api.BootOutcome) api.MachineBootStatus {
		return api.MachineBootStatus{Machine: "failing", MachineUID: failing.GetUID(), Stage: stage, Outcome: outcome, BootID: "b", Attempt: 2, Config: "0123456789ab", Since: metav1.Now()}
	}
	report.Status.Machines = []api.MachineBootStatus{stage(api.BootStageBootstrap, api.BootSucceeded), stage(api.BootStageSetup, api.BootFailing)}
	do(cl.Status().Update(t.Context(), report))
	for size := range int64(3) {
		all, err := bootcounts.ListUnjoined(t.Context(), cl, size)
		do(err)
		var got []string
		for _, m := range all {
			if m.Pool != ns+"/web" {
				continue
			}
			text := m.Machine
			if m.Boot != nil {
				text += " " + string(m.Boot.Stage)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff([]string{"failing Setup", "silent"}, got); diff != "" {
			t.Errorf("in pages of %d (-want +got)\n%s", size, diff)
		}
		reader := fleet.Reader{Management: cl, Worker: cl, Namespace: ns, PageSize: size}
		for reports, want := range map[client.Reader]int{nil: 0, cl: 1} {
			reader.Reports = func() client.Reader { return reports }
			o, err := reader.Read(t.Context())
			do(err)
			o.Failing = slices.DeleteFunc(o.Failing, func(m fleet.MachineBoot) bool { return m.Pool != ns+"/web" })
			if len(o.Failing) != want || want > 0 && (o.Failing[0].Machine != "failing" || o.Failing[0].Boot.Stage != api.BootStageSetup) {
				t.Errorf("failing are %+v", o.Failing)
			}
		}
	}
}
