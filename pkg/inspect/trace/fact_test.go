package trace_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// The controller's conclusion about a node's report is not applied to a newer report, which the
// controller has not seen yet.
func TestOtherWordsSince(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	if got := nodeTrail(t, e, "one"); got.Node.Agreed.Status != metav1.ConditionTrue || !got.IsConclusive() {
		t.Fatalf("before: %+v", got.Node.Agreed)
	}
	clusterfixture.Get[*corev1.Node](e, "one").Labels[api.LabelConfig] = "0123456789ab"
	got := nodeTrail(t, e, "one")
	if got.Node.Agreed.Status != metav1.ConditionFalse || got.IsConclusive() || !strings.Contains(strings.Join(got.Disagreements, ""), "0123456789ab") {
		t.Errorf("after: %+v %v", got.Node.Agreed, got.Disagreements)
	}
}

// That nothing comes from a commit is not said by who could not read it.
func TestCommitUnread(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	_, err := e.Clusters().Commit(t.Context(), clusterfixture.Commit(9), trace.Page{Limit: 9})
	var none *trace.NotFoundError
	if !errors.As(err, &none) || !strings.Contains(none.Hint, "in the cluster comes from it") {
		t.Fatalf("got %v", err)
	}
	e.ReadErrors = []string{"ControllerRevision", "NodeProvenance"}
	_, err = e.Clusters().Commit(t.Context(), clusterfixture.Commit(9), trace.Page{Limit: 9})
	if !errors.As(err, &none) || !strings.Contains(none.Hint, "that could be read") || !strings.Contains(none.Hint, "ControllerRevisions: ") || !strings.Contains(none.Hint, "NodeProvenances: ") {
		t.Errorf("got %v", err)
	}
	tr, err := e.Clusters().Commit(t.Context(), clusterfixture.Commit(0), trace.Page{Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	if step := tr.Step("ControllerRevision"); step == nil || step.State != trace.Unreadable || !strings.Contains(step.Note, "pools can be missing") {
		t.Errorf("of a commit that is known: %+v", step)
	}
}

// A text in a NodeProvenance does nothing to a terminal (security.md 28).
func TestHostilePossible(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	for _, obj := range e.Objects {
		if np, ok := obj.(*api.NodeProvenance); ok {
			np.Spec.Possible = []api.PossibleConfiguration{{Profile: "x\x1b[31m", Version: "y\nz"}}
			np.Spec.Bootstrap = &api.PossibleConfiguration{InputDigest: "\x1b", Profile: "x\x1b[31m"}
		}
	}
	n := nodeTrail(t, e, "one").Node
	if p := n.Possible[0]; strings.ContainsAny(p.Profile+p.Version+n.Bootstrap.Profile+n.Bootstrap.InputDigest, "\x1b\n") {
		t.Errorf("got %q and %q", p, n.Bootstrap)
	}
}

// The facts about a node are not used for another machine that names it.
func TestMachineOfAnother(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	m := clusterfixture.Get[*machines.Machine](e, "one")
	if tr, err := e.Clusters().Machine(t.Context(), client.ObjectKeyFromObject(m)); err != nil || !tr.IsConclusive() {
		t.Fatalf("before: %+v (err %v)", tr, err)
	}
	m.UID = "11111111-0000" // made again
	tr, err := e.Clusters().Machine(t.Context(), client.ObjectKeyFromObject(m))
	if err != nil || tr.IsConclusive() || !strings.Contains(strings.Join(tr.Disagreements, ""), "11111111-0000") {
		t.Errorf("after: %+v (err %v)", tr, err)
	}
}
