package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// TestPoliciesOfRecords checks who can write records of nodes and of earlier
// configurations, and what of a report (security.md 46). Backups, garbage collection and other
// controllers still work.
func TestPoliciesOfRecords(t *testing.T) {
	who, ns := policed(t)
	const mine = "only osm-gitops writes it"
	node := func(edits ...func(client.Object)) client.Object { return edited(provenanceObject("node-a.1"), edits) }
	record := func(edits ...func(client.Object)) client.Object {
		return edited(recordObject(ns, "pool-shop-0123456789ab"), edits)
	}
	// As the API server makes one for a workload whose pods have the common label.
	foreign := func(edits ...func(client.Object)) client.Object {
		return edited(edited(recordObject(ns, "web-7f9c"), []func(client.Object){func(o client.Object) { o.SetAnnotations(nil) }}), edits)
	}
	annotate := func(key, value string) func(client.Object) {
		return func(o client.Object) { o.SetAnnotations(with(o.GetAnnotations(), key, value)) }
	}
	label := func(key, value string) func(client.Object) {
		return func(o client.Object) { o.SetLabels(with(o.GetLabels(), key, value)) }
	}
	bare := func(o client.Object) { o.SetLabels(nil); o.SetAnnotations(nil) }
	hold := func(o client.Object) { o.SetFinalizers([]string{"example.com/hold"}) }
	report := func(edits ...func(client.Object)) client.Object {
		return edited(&api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-a-0123456789abcdef"}}, edits)
	}
	fill := func(n int32) func(client.Object) {
		return func(o client.Object) {
			o.(*api.BootReport).Spec.Machines = []api.MachineBoot{{
				Machine: "a", Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: n, Config: "0123456789ab", BootID: "01234567-89ab-cdef-0123-456789abcdef",
			}}
		}
	}
	// An owner that exists: garbage collection deletes what has none.
	var owner corev1.Namespace
	do(t, who[admin].Get(t.Context(), client.ObjectKey{Name: api.NamespaceCloudInitSettings}, &owner))
	own := func(o client.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: owner.Name, UID: owner.UID}})
	}
	newer := func(o client.Object) { o.(*appsv1.ControllerRevision).Revision++ }

	for _, s := range []step{
		{"the controller writes where a node came from", controller, nil, node(), ""},
		{"nobody else", editor, nil, node(), mine},
		{"not even the administrator", admin, nil, node(), mine},
		{"but who restores backups", restorer, nil, node(), ""},
		{"provenance, with another label", editor, node(), node(label(api.LabelCommit, "2")), mine},
		{"provenance, annotated", admin, node(), node(annotate("a", "b")), mine},
		{"provenance, held", editor, node(), node(hold), mine},
		{"provenance, released: garbage collection does that", editor, node(hold), node(), ""},
		{"provenance, deleted", editor, node(), nil, ""},

		{"the controller makes a report", controller, nil, report(), ""},
		{"nobody else", editor, nil, report(), mine},
		{"a report, filled", editor, report(), report(fill(1)), ""},
		{"a report, with another label", editor, report(), report(label("a", "b")), mine},
		{"a report, annotated", editor, report(), report(annotate(api.AnnotationPool, "shop/other")), mine},
		{"a report, held", editor, report(), report(hold), mine},
		{"a report, owned", editor, report(), report(own), mine},
		{"a report, released by its owner", editor, report(own), report(), mine},
		{"a report, deleted", editor, report(), nil, ""},

		{"the controller archives a record", controller, nil, record(), ""},
		{"nobody else", editor, nil, record(), mine},
		{"but who restores backups", operator, nil, record(), ""},
		{"a record, of another pool", editor, record(), record(annotate(api.AnnotationPool, "shop/other")), mine},
		{"a record, of another time", admin, record(), record(newer), mine},
		{"a record, hidden", editor, record(), record(bare), mine},
		{"a record, held", editor, record(), record(hold), mine},
		{"a record, released", editor, record(hold), record(), ""},
		{"a record, deleted", editor, record(), nil, ""},
		{"a workload's revision", editor, nil, foreign(), ""},
		{"a workload's revision, changed", editor, foreign(), foreign(newer, label("a", "b"), hold), ""},
		{"a workload's revision, made a record", editor, foreign(), foreign(annotate(api.AnnotationPool, "shop/pool")), mine},
		{"a revision that says it is of a pool, taken in", editor, edited(foreign(annotate(api.AnnotationPool, "shop/pool")), []func(client.Object){func(o client.Object) { o.SetLabels(nil) }}), foreign(annotate(api.AnnotationPool, "shop/pool")), mine},
	} {
		t.Run(s.name, func(t *testing.T) {
			target := s.after
			if target == nil {
				target = s.before
			}
			t.Cleanup(func() { remove(t, who[restorer], target) })
			err := s.apply(t, who)
			if s.refused == "" && err != nil || s.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), s.refused)) {
				t.Errorf("%s: %v, want %q", s.as, err, s.refused)
			}
		})
	}

	t.Run("what a status says", func(t *testing.T) {
		np := provenanceObject("node-b.1")
		ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "stated"}, Spec: api.ProfileSourceSpec{
			Directory: &api.DirectorySource{Path: "x"}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
		}}
		boots := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-stated-0123456789abcdef"}}
		for _, obj := range []client.Object{np, ps, boots} {
			do(t, who[restorer].Create(t.Context(), obj))
			t.Cleanup(func() { remove(t, who[restorer], obj) })
			patch := func(as string) error {
				return who[as].Status().Patch(t.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`)), client.DryRunAll)
			}
			// policed does not wait for a policy for status only.
			eventually(t, "the policy to be in force", func() error {
				if err := patch(editor); !apierrors.IsForbidden(err) {
					return fmt.Errorf("%T: not refused: %v", obj, err) //nolint:errorlint // it may be nil
				}
				return nil
			})
			for _, as := range []string{editor, admin} {
				if err := patch(as); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only osm-gitops writes ") {
					t.Errorf("%T, %s: %v", obj, as, err)
				}
			}
			for _, as := range []string{controller, restorer} {
				if err := patch(as); err != nil {
					t.Errorf("%T, %s: %v", obj, as, err)
				}
			}
		}
		// The spec of a source is people's.
		if err := who[editor].Patch(t.Context(), ps, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))); err != nil {
			t.Error(err)
		}
	})
}

// If several controllers share a cluster, each can write in its own namespace when its
// ServiceAccount's name is in the parameters, and not in another's.
func TestPoliciesOfManyControllers(t *testing.T) {
	who, ns := policed(t)
	write := func(as string) error {
		return who[as].Create(t.Context(), marked(configObject(tenants, "many")), client.DryRunAll)
	}
	if err := write(tenant); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only osm-gitops") {
		t.Errorf("without the parameter: %v", err)
	}
	parameters(t, who[admin], `{"serviceAccounts":"\n osm-gitops \n"}`)
	eventually(t, "the parameter to count", func() error { return write(tenant) })
	for what, obj := range map[string]client.Object{
		"a profile": marked(profileObject(tenants, "many")), "a record": recordObject(tenants, "many"),
	} {
		if err := who[tenant].Create(t.Context(), obj, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, obj := range map[string]client.Object{
		"a configuration elsewhere": marked(configObject(ns, "many")), "user-data": marked(secretObject("many")), "provenance": provenanceObject("many.1"),
	} {
		if err := who[tenant].Create(t.Context(), obj, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := write(editor); !apierrors.IsForbidden(err) {
		t.Errorf("somebody else: %v", err)
	}

	// A long list costs no more than the API server lets an expression cost.
	var users strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&users, `system:serviceaccount:cluster-%010d:operating-system\n`, i)
	}
	parameters(t, who[admin], `{"users":"`+users.String()+`editor\nsystem:serviceaccount:kube-system:osm-gitops"}`)
	eventually(t, "the last of many to count", func() error { return write(editor) })
	if err := who[controller].Create(t.Context(), marked(configObject(ns, "many")), client.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := write(admin); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only osm-gitops") {
		t.Errorf("somebody who is not listed: %v", err)
	}
}

func edited(o client.Object, edits []func(client.Object)) client.Object {
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func recordObject(ns, name string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, Labels: map[string]string{api.LabelManagedBy: api.FieldManager},
			Annotations: map[string]string{api.AnnotationPool: "shop/pool", api.AnnotationInputDigest: "v1:sha256:0"},
		},
		Data: runtime.RawExtension{Raw: []byte(`{}`)}, Revision: 1,
	}
}

func provenanceObject(name string) *api.NodeProvenance {
	then := metav1.Unix(1_700_000_000, 0)
	return &api.NodeProvenance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelNode: "node-a"}},
		Spec: api.NodeProvenanceSpec{
			Node:     api.ProvenanceNode{Name: "node-a", UID: "1", Joined: then},
			Machine:  api.ProvenanceMachine{Namespace: "shop", Name: "a", UID: "2", Created: then},
			Pool:     api.ProvenancePool{Namespace: "shop", Name: "pool", UID: "3", MachineSet: "pool-1"},
			Evidence: api.EvidenceUnknown, Window: api.ProvenanceWindow{From: &then, Until: then},
		},
	}
}
