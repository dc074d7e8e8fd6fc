package nodes

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
)

// A node reports its configuration, the records agree, and all facts are recorded.
// security.md 28: the author's name contains an escape sequence.
func TestReported(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	m := f.machine(pool)
	node := f.join(m, says(rec))
	np := f.provenance(node)

	want := api.NodeProvenanceSpec{
		Node:     api.ProvenanceNode{Name: node.Name, UID: node.UID, ProviderID: "aws:///" + m.Name, Joined: node.CreationTimestamp},
		Machine:  api.ProvenanceMachine{Namespace: f.ns, Name: m.Name, UID: m.UID, Created: m.CreationTimestamp},
		Pool:     api.ProvenancePool{Namespace: f.ns, Name: "workers", UID: pool.UID, MachineSet: m.Name, Revision: "1"},
		Evidence: api.EvidenceReported,
		Configuration: &api.ProvenanceConfiguration{
			InputDigest: rec.Digests.Input, Profile: "osp-x", Version: "v1.0.0", Object: "osp-x-v1.0.0", ProfileDigest: rec.ObjectDigest,
			Repository: rec.Repository, Path: rec.Path, Commit: rec.Commit, ShortCommit: "111111111111", Change: rec.Change, SelectedBy: rec.SelectedBy,
			CommittedAt: "2026-02-27T16:20:00Z", Author: "Ada [31m<ada@example.com>", Signature: "commit by ada, ssh SHA256:x", Engine: "v1",
		},
		Bootstrap: &api.PossibleConfiguration{InputDigest: rec.Digests.Input, Profile: "osp-x", Version: "v1.0.0", Commit: rec.Commit, From: f.config(pool).CreationTimestamp},
		Reported:  &api.NodeReport{Config: says(rec)[api.LabelConfig], Commit: rec.Commit},
		Window:    api.ProvenanceWindow{From: &m.CreationTimestamp, Until: node.CreationTimestamp},
	}
	if diff := cmp.Diff(want, np.Spec, cmpopts.IgnoreFields(api.NodeProvenanceSpec{}, "Explanation")); diff != "" {
		t.Errorf("the record differs (-want +got):\n%s", diff)
	}
	for key, value := range map[string]string{api.LabelNode: node.Name, api.LabelPool: f.ns + "_workers", api.LabelVersion: "v1.0.0", api.LabelCommit: rec.Commit} {
		if np.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, np.Labels[key], value)
		}
	}
	if np.Status.Behind != api.BehindNo || !apimeta.IsStatusConditionTrue(np.Status.Conditions, api.AgreedCondition) {
		t.Errorf("the status is %+v", np.Status)
	}
	f.eventually("the node is annotated", func() error {
		var got corev1.Node
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(node), &got); err != nil {
			return err
		}
		if got.Annotations[api.AnnotationProvenance] != np.Name {
			return fmt.Errorf("the node has annotations %v", got.Annotations)
		}
		return nil
	})
	if len(f.events.Events) > 0 {
		t.Errorf("an event was written: %s", <-f.events.Events)
	}
}

// What only the machine's status, or the node's annotation, links is found as well.
func TestLinks(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	for name, link := range map[string]func(*machines.Machine, *corev1.Node){
		"annotation": func(m *machines.Machine, n *corev1.Node) {
			n.Annotations = map[string]string{api.AnnotationMachine: m.Namespace + "/" + m.Name}
		},
		"a label of a machine that is gone, and the annotation": func(m *machines.Machine, n *corev1.Node) {
			n.Labels = map[string]string{api.LabelOwnedBy: "gone"}
			n.Annotations = map[string]string{api.AnnotationMachine: m.Namespace + "/" + m.Name}
		},
		"status": func(m *machines.Machine, n *corev1.Node) {
			m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: n.Name}
			f.do(f.client.Status().Update(t.Context(), m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := f.machine(pool)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
			link(m, node)
			f.create(node)
			if np := f.provenance(node); np.Spec.Machine.UID != m.UID || np.Spec.Evidence != api.EvidenceInferred {
				t.Errorf("got %+v", np.Spec)
			}
		})
	}
}

// Nodes that join while the controller is down are found when it is back, with the
// configuration that was active then, and so are deleted ones.
func TestWhileTheControllerWasDown(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	first := f.serve(pool, "v1.0.0")
	f.start()
	stays, leaves := f.join(f.machine(pool), says(first)), f.join(f.machine(pool), says(first))
	f.provenance(stays)
	f.provenance(leaves)
	f.stop()

	joins := f.join(f.machine(pool), nil)
	f.do(f.client.Delete(t.Context(), leaves))
	apart()
	second := f.serve(pool, "v2.0.0")
	last := f.join(f.machine(pool), says(second))
	f.writes.Store(0)
	f.start()

	if np := f.provenance(joins); np.Spec.Evidence != api.EvidenceInferred || np.Spec.Configuration.Version != "v1.0.0" || np.Status.Behind != api.BehindYes || len(np.Spec.Possible) > 0 {
		t.Errorf("who joined before the push has %+v %+v", np.Spec, np.Status)
	}
	if np := f.provenance(last); np.Spec.Evidence != api.EvidenceReported || np.Spec.Configuration.Version != "v2.0.0" || np.Status.Behind != api.BehindNo {
		t.Errorf("who joined after the push has %+v %+v", np.Spec, np.Status)
	}
	np := f.until(lineage.ProvenanceName(stays.Name, stays.UID), func(np *api.NodeProvenance) bool { return np.Status.Behind == api.BehindYes })
	if np.Status.Missing == nil || np.Status.Missing.Version != "v2.0.0" || np.Status.Missing.Commit != second.Commit {
		t.Errorf("it misses %+v", np.Status.Missing)
	}
	gone := f.until(lineage.ProvenanceName(leaves.Name, leaves.UID), func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
	if gone.Status.Behind != api.BehindNo {
		t.Errorf("who left is told to be behind: %+v", gone.Status)
	}

	// A newer push changes nothing that is behind already, and a restart nothing at all.
	f.eventually("everything is written", func() error {
		if n := f.writes.Load(); n != 8 { // joins and last: create, annotation, status; stays and leaves: status
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	f.serve(pool, "v3.0.0")
	f.until(lineage.ProvenanceName(last.Name, last.UID), func(np *api.NodeProvenance) bool { return np.Status.Behind == api.BehindYes })
	if n := f.writes.Load(); n != 9 {
		t.Errorf("the push wrote %d times, want once", n-8)
	}
	f.stop()
	f.start()
	f.provenance(f.join(f.machine(pool), nil))
	f.eventually("the new node alone is written", func() error {
		if n := f.writes.Load(); n != 12 {
			return fmt.Errorf("%d writes after a restart and one node", n)
		}
		return nil
	})
}

// A node that is deleted and created again under its name has two records, and the
// second knows that its machine is older.
func TestSameNameAgain(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	m := f.machine(pool)
	first := f.join(m, nil)
	before := f.provenance(first)
	f.do(f.client.Delete(t.Context(), first))
	f.until(before.Name, func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
	apart()
	f.serve(pool, "v2.0.0")
	second()
	second := f.join(m, nil)
	after := f.provenance(second)
	if before.Name == after.Name || after.Spec.Node.UID != second.UID || after.Status.Removed != nil {
		t.Errorf("got %s after %s", after.Name, before.Name)
	}
	if got := after.Spec; got.Configuration == nil || got.Configuration.Version != "v1.0.0" || !got.Window.Until.Equal(&first.CreationTimestamp) {
		t.Errorf("the machine was provisioned before the push, got %+v", got)
	}

	// Another machine that takes the name has another record.
	f.do(f.client.Delete(t.Context(), second))
	f.do(f.client.Delete(t.Context(), m))
	other := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: m.Name, OwnerReferences: m.OwnerReferences}}
	f.create(other)
	third := f.provenance(f.join(other, nil))
	if third.Spec.Configuration == nil || third.Spec.Configuration.Version != "v2.0.0" || third.Spec.Machine.UID != other.UID {
		t.Errorf("got %+v", third.Spec)
	}
}

// Machines that are linked to their pool after their node has joined, or that adopt an
// existing node.
func TestAdoptedLate(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	orphan := f.machine(nil)
	node := f.join(orphan, nil)
	early := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-early", Labels: says(rec)}}
	silent := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-silent"}}
	f.create(early)
	f.create(silent)
	f.provenance(f.join(f.machine(pool), nil)) // by now the others were reconciled
	if all := f.all(); len(all) != 1 {
		t.Fatalf("nodes without a pool have records: %v", all)
	}

	orphan.OwnerReferences = []metav1.OwnerReference{f.set(pool, orphan.Name)}
	f.do(f.client.Update(t.Context(), orphan))
	if np := f.provenance(node); np.Spec.Evidence != api.EvidenceInferred || np.Spec.Configuration.Version != "v1.0.0" {
		t.Errorf("got %+v", np.Spec)
	}

	apart()
	for _, n := range []*corev1.Node{early, silent} {
		m := f.machine(pool)
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: n.Name, UID: n.UID}
		f.do(f.client.Status().Update(t.Context(), m))
	}
	if np := f.provenance(early); np.Spec.Evidence != api.EvidenceReported || np.Spec.Window.From != nil {
		t.Errorf("a node that says what it has: %+v", np.Spec)
	}
	if np := f.provenance(silent); np.Spec.Evidence != api.EvidenceUnknown || !strings.Contains(np.Spec.Explanation, "younger than its Node") || len(np.Spec.Possible) != 1 {
		t.Errorf("a node that says nothing: %+v", np.Spec)
	}
}

// Nodes of machines that are none of ours have no record: without a machine, of a
// MachineDeployment without a profile, and those that name another node's machine.
// security.md 24: what a node says of itself gives it no pool.
func TestForeign(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	taken := f.machine(pool)
	owner := f.join(taken, nil)
	taken.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: owner.Name, UID: owner.UID}
	f.do(f.client.Status().Update(t.Context(), taken))
	f.provenance(owner)
	f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-alone"}})
	f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-liar", Labels: map[string]string{api.LabelOwnedBy: string(taken.UID)}, Annotations: map[string]string{api.AnnotationMachine: f.ns + "/" + taken.Name}}})
	f.join(f.machine(f.pool("others", "")), nil)
	last := f.join(f.machine(pool), nil)
	f.provenance(last)
	if diff := cmp.Diff(map[string]bool{owner.Name: true, last.Name: true}, f.all()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A pool can be deleted before its nodes: their NodeProvenances remain, and a node that
// was not yet reconciled is derived from the archived record.
func TestPoolDeletedBeforeItsNodes(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	node := f.join(f.machine(pool), nil)
	before := f.provenance(node)
	f.stop()
	m := f.machine(pool)
	unseen := f.join(m, nil)
	// machine-controller retains both until the instance is deleted.
	for _, obj := range []client.Object{m, &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: m.Name}}} {
		f.do(f.client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/instance"]}}`))))
	}
	second()
	osc := f.config(pool)
	f.archive(pool, osc, time.Now())
	f.do(f.client.Delete(t.Context(), osc))
	f.do(f.client.Delete(t.Context(), pool))
	f.start()
	if np := f.provenance(unseen); np.Spec.Evidence != api.EvidenceInferred || np.Spec.Configuration.Author == "" || np.Spec.Pool.UID != pool.UID || np.Status.Behind != api.BehindUnknown {
		t.Errorf("got %+v %+v", np.Spec, np.Status)
	}
	f.do(f.client.Delete(t.Context(), node))
	after := f.until(before.Name, func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.Status.Behind != api.BehindNo {
		t.Errorf("it changed (-before +after):\n%s%+v", diff, after.Status)
	}
}

// A node that claims a configuration which its pool never had is reported once, by an
// event and a condition with both claims.
func TestLabelsThatLie(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	node := f.join(f.machine(pool), map[string]string{api.LabelConfig: "0123456789ab", api.LabelCommit: rec.Commit})
	np := f.provenance(node)
	agreed := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition)
	if agreed == nil || agreed.Status != metav1.ConditionFalse || agreed.Reason != api.ReasonNeverCurrent || !strings.Contains(agreed.Message, `"0123456789ab"`) {
		t.Errorf("the condition is %+v", agreed)
	}
	if np.Spec.Evidence != api.EvidenceInferred || np.Spec.Configuration.InputDigest != rec.Digests.Input || np.Spec.Reported.Config != "0123456789ab" {
		t.Errorf("not both are kept: %+v", np.Spec)
	}
	event := ""
	f.eventually("an event comes", func() error {
		select {
		case event = <-f.events.Events:
			return nil
		default:
			return errors.New("no event")
		}
	})
	if !strings.HasPrefix(event, "Warning ProvenanceDisputed ") || !strings.Contains(event, np.Name) {
		t.Errorf("the event is %q", event)
	}

	// Corrected, the condition follows; the record stays what it is.
	node.Labels[api.LabelConfig] = says(rec)[api.LabelConfig]
	patch := client.MergeFrom(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}})
	f.do(f.client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: says(rec)}}, patch))
	after := f.until(np.Name, func(np *api.NodeProvenance) bool {
		return apimeta.IsStatusConditionTrue(np.Status.Conditions, api.AgreedCondition)
	})
	if after.Spec.Evidence != api.EvidenceInferred || after.Status.Reported.Config != says(rec)[api.LabelConfig] {
		t.Errorf("got %+v %+v", after.Spec, after.Status)
	}
	if len(f.events.Events) > 0 {
		t.Errorf("one more event: %s", <-f.events.Events)
	}
}

// The controller's clock does not decide which configuration was active: it can be off by
// hours.
func TestClockMoved(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -5 * time.Hour, "ahead": 5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.clock.Step(off)
			pool := f.pool("workers", "osp-x")
			f.serve(pool, "v1.0.0")
			before := f.join(f.machine(pool), nil)
			apart()
			second := f.serve(pool, "v2.0.0") // archives with that clock
			after := f.join(f.machine(pool), says(second))
			f.start()
			if np := f.provenance(before); np.Spec.Configuration == nil || np.Spec.Configuration.Version != "v1.0.0" || len(np.Spec.Possible) > 0 {
				t.Errorf("before the push: %+v", np.Spec)
			}
			if np := f.provenance(after); np.Spec.Evidence != api.EvidenceReported || np.Spec.Configuration.Version != "v2.0.0" {
				t.Errorf("after the push: %+v", np.Spec)
			}
		})
	}
}

// A pool that was taken over: no record has what operating-system-manager gave its
// machines.
func TestTakenOver(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	before := f.join(f.machine(pool), nil)
	apart()
	f.start()
	if np := f.provenance(before); np.Spec.Evidence != api.EvidenceUnknown || np.Spec.Configuration != nil || np.Status.Behind != api.BehindUnknown {
		t.Errorf("before: %+v %+v", np.Spec, np.Status)
	}
	f.serve(pool, "v1.0.0")
	after := f.join(f.machine(pool), nil)
	if np := f.provenance(after); np.Spec.Evidence != api.EvidenceInferred || np.Spec.Configuration.Version != "v1.0.0" {
		t.Errorf("after: %+v", np.Spec)
	}
}

// A deleted NodeProvenance of an existing node is created again; an expired one of a
// deleted node is not.
func TestRetention(t *testing.T) {
	f := newFleet(t)
	f.keep = Retention{Age: time.Hour, Max: 2}
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	var names []string
	var nodes []*corev1.Node
	for range 4 {
		node := f.join(f.machine(pool), nil)
		nodes, names = append(nodes, node), append(names, f.provenance(node).Name)
	}
	deleted := &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: names[3]}}
	f.do(f.client.Delete(t.Context(), deleted))
	if again := f.provenance(nodes[3]); again.UID == deleted.UID {
		t.Error("it was not deleted")
	}
	for i := range 3 {
		f.do(f.client.Delete(t.Context(), nodes[i]))
		f.until(names[i], func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
		f.clock.Step(2 * time.Second)
	}
	left := func(want ...string) {
		t.Helper()
		f.eventually("the NodeProvenances are as wanted", func() error {
			var got []string
			for _, name := range names {
				err := f.client.Get(t.Context(), client.ObjectKey{Name: name}, &api.NodeProvenance{})
				if err == nil {
					got = append(got, name)
				} else if !apierrors.IsNotFound(err) {
					return err
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	f.stop()
	f.start() // looks at once
	left(names[2], names[3])
	f.stop()
	f.clock.Step(time.Hour)
	f.start()
	left(names[3])
}

// Heartbeats of a node cause no work, and neither do other changes of it.
func TestHeartbeats(t *testing.T) {
	was := kubeclient.Metadata(nodecache.NodeKind)
	was.UID, was.ResourceVersion = "a", "1"
	for name, c := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"a heartbeat":     {func(n *metav1.PartialObjectMetadata) {}, false},
		"another label":   {func(n *metav1.PartialObjectMetadata) { n.Labels = map[string]string{"a": "b"} }, false},
		"another node":    {func(n *metav1.PartialObjectMetadata) { n.UID = "b" }, true},
		"its own word":    {func(n *metav1.PartialObjectMetadata) { n.Labels = map[string]string{api.LabelConfig: "b"} }, true},
		"its machine":     {func(n *metav1.PartialObjectMetadata) { n.Labels = map[string]string{api.LabelOwnedBy: "b"} }, true},
		"its annotations": {func(n *metav1.PartialObjectMetadata) { n.Annotations = map[string]string{api.AnnotationMachine: "a/b"} }, true},
	} {
		is := was.DeepCopy()
		is.ResourceVersion = "2"
		c.change(is)
		if got := nodeChanged.Update(updated(was, is)); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
