package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// A node that claims the machine of another pool, as root on it can at any time: if a
// machine names the node, that counts; otherwise the conflict is reported as soon as one
// does. security.md 24
func TestAnothersMachine(t *testing.T) {
	f := newFleet(t)
	pool, precious := f.pool("workers", "osp-x"), f.pool("precious", "osp-x")
	f.serve(pool, "v1.0.0")
	f.serve(precious, "v1.0.0")
	f.start()
	booting := f.machine(precious)
	own := f.machine(pool)
	own.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: f.ns + "-known"}
	f.do(f.client.Status().Update(t.Context(), own))
	claims := map[string]string{api.LabelOwnedBy: string(booting.UID)}
	known := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-known", Labels: claims, Annotations: map[string]string{api.AnnotationMachine: f.ns + "/" + booting.Name}}}
	f.create(known)
	if np := f.provenance(known); np.Spec.Machine.UID != own.UID || np.Spec.Pool.Name != "workers" {
		t.Errorf("it is believed to be of %+v, %+v", np.Spec.Machine, np.Spec.Pool)
	}

	early := f.machine(pool)
	liar := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-liar", Labels: claims}}
	f.create(liar)
	np := f.provenance(liar)
	for _, says := range []struct {
		machine *machines.Machine
		node    string
		want    string
	}{{early, liar.Name, "names this node"}, {booting, f.ns + "-honest", `names node "` + f.ns + `-honest"`}} {
		says.machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: says.node}
		f.do(f.client.Status().Update(t.Context(), says.machine))
		f.until(np.Name, func(np *api.NodeProvenance) bool {
			agreed := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition)
			return agreed != nil && agreed.Status == metav1.ConditionFalse && agreed.Reason == api.ReasonOtherMachine
		})
		if event := <-f.events.Events; !strings.HasPrefix(event, "Warning ProvenanceDisputed ") || !strings.Contains(event, says.want) {
			t.Errorf("the event is %q, want %q", event, says.want)
		}
		early.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: f.ns + "-other"}
		if says.machine == early { // it takes that back
			f.do(f.client.Status().Update(t.Context(), early))
			f.until(np.Name, func(np *api.NodeProvenance) bool {
				return !apimeta.IsStatusConditionFalse(np.Status.Conditions, api.AgreedCondition)
			})
		}
	}
	// The honest one has its machine, and its own window.
	honest := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.ns + "-honest", Labels: claims}}
	second()
	f.create(honest)
	if got := f.provenance(honest).Spec; got.Machine.UID != booting.UID || !got.Window.Until.Equal(&honest.CreationTimestamp) {
		t.Errorf("got %+v, %+v", got.Machine, got.Window)
	}
}

// If root on a node keeps changing its labels, or our annotation, the controller reacts
// once a minute.
func TestFlapping(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	node := f.join(f.machine(pool), says(rec))
	np := f.provenance(node)
	f.quiet()
	for i := range 40 {
		body := fmt.Sprintf(`{"metadata":{"labels":{%q:"%012x"},"annotations":{%q:null}}}`, api.LabelConfig, i, api.AnnotationProvenance)
		f.do(f.client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, []byte(body))))
		time.Sleep(10 * time.Millisecond) // so that the controller sees many of them
	}
	time.Sleep(500 * time.Millisecond)         // more writes would have come by now
	if n := f.writes.Load(); n == 0 || n > 2 { // the annotation and the status, once
		t.Errorf("%d writes for 40 changes", n)
	}
	if got := f.until(np.Name, func(np *api.NodeProvenance) bool {
		return apimeta.IsStatusConditionFalse(np.Status.Conditions, api.AgreedCondition)
	}); got.Spec.Evidence != api.EvidenceReported {
		t.Errorf("got %+v", got.Spec)
	}
	// The last word is heard in the end.
	f.stop()
	f.start()
	f.until(np.Name, func(np *api.NodeProvenance) bool {
		return np.Status.Reported.Config == fmt.Sprintf("%012x", 39)
	})
}

// A MachineDeployment that becomes a pool: its existing nodes get a NodeProvenance with
// unknown configuration.
func TestBecomesAPool(t *testing.T) {
	f := newFleet(t)
	f.start()
	pool := f.pool("workers", "")
	node := f.join(f.machine(pool), nil)
	apart()
	f.serve(pool, "v1.0.0")
	if np := f.provenance(node); np.Spec.Evidence != api.EvidenceUnknown || np.Spec.Pool.UID != pool.UID {
		t.Errorf("got %+v", np.Spec)
	}
}
