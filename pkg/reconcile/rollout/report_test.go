package rollout

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

// A warning is emitted once until it changes. It is forgotten when a complete run of its
// ProfileSource does not find it, and not by runs of others.
func TestWarnings(t *testing.T) {
	told := events.NewFakeRecorder(10)
	r := &Reconciler{Recorder: told}
	r.makeMaps()
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
	for _, c := range []struct {
		source, text string
		done         applied
		want         string
	}{
		{"osps", "one", applied{complete: true}, "one"},
		{"osps", "one", applied{complete: true}, ""},
		{"", "", applied{complete: true}, ""},
		{"osps", "one", applied{complete: true}, ""},
		{"osps", "another", applied{}, "another"},
		{"osps", "another", applied{complete: true}, ""},
		{"osps", "", applied{}, ""},
		{"osps", "another", applied{complete: true}, ""},
		{"osps", "", applied{complete: true}, ""},
		{"osps", "another", applied{complete: true}, "another"},
	} {
		seen := &observed{}
		if c.text != "" {
			seen.warn(md, "wave", errors.New(c.text))
		}
		if _, err := r.report(ctrl.Request{NamespacedName: types.NamespacedName{Name: c.source}}, seen, plan{}, c.done, nil); err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(told.Events) > 0 {
			got = <-told.Events
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("run of %q with warning %q, complete %t: got %q, want %q", c.source, c.text, c.done.complete, got, c.want)
		}
	}
}
