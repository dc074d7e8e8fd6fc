package rollout

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

func TestToStamp(t *testing.T) {
	made := func(name string, wave int32, stamp, config string, stale, busy bool) candidate {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 2}}
		md.Status = cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		if busy {
			md.Status.ObservedGeneration = 1
		}
		return candidate{md: md, wave: wave, templateAnnotation: stamp, config: config, stale: stale}
	}
	for name, c := range map[string]struct {
		all   []candidate
		limit int
		want  string
	}{
		"the earlier wave first":                        {[]candidate{made("a", 5, "", "d", true, false), made("b", 0, "", "d", true, false)}, 1, "b"},
		"as many as allowed":                            {[]candidate{made("a", 5, "c", "d", true, false), made("b", 5, "c", "d", true, false), made("c", 5, "c", "d", true, false)}, 2, "a b"},
		"a current stamp is left":                       {[]candidate{made("a", 5, "d", "d", true, false)}, 5, ""},
		"machines that boot from it already are left":   {[]candidate{made("a", 5, "", "d", false, false)}, 5, ""},
		"Secrets that are not written yet":              {[]candidate{made("a", 5, "c", "", true, false)}, 5, ""},
		"what is refused takes nobody's turn":           {[]candidate{made("refused", 0, "", "d", true, false), made("b", 5, "", "d", true, false), made("c", 5, "", "d", true, false)}, 1, "b"},
		"one is at it":                                  {[]candidate{made("a", 0, "d", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, ""},
		"one that is at it gets another stamp at once":  {[]candidate{made("a", 0, "c", "d", true, false), made("b", 5, "c", "d", true, true)}, 1, "b"},
		"one without a stamp is not at it":              {[]candidate{made("a", 0, "", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, "a"},
		"a lower limit than there are at it, and a way": {[]candidate{made("a", 0, "c", "c", true, true), made("b", 5, "c", "c", true, true), made("c", 5, "c", "d", true, false)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			stampDueReplacements(c.all, c.limit, func(c candidate) bool {
				if c.md.Name == "refused" {
					return false
				}
				got = append(got, c.md.Name)
				return true
			})
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// The MachineDeployment shows whether machine-controller is replacing machines, but not
// whether they are new or unavailable.
func TestBusy(t *testing.T) {
	for name, c := range map[string]struct {
		status  cluster.MachineDeploymentStatus
		booting bool
		want    bool
	}{
		"done":                            {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, false},
		"not seen yet":                    {cluster.MachineDeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, true},
		"old machines are left":           {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1, AvailableReplicas: 4}, false, true},
		"new ones boot":                   {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, true, true},
		"a Node is away since days":       {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, false, false},
		"it is not as large as it should": {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false, true},
	} {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: c.status}
		three := int32(3)
		md.Spec.Replicas = &three
		if got := (candidate{md: md, templateAnnotation: "d", booting: c.booting}).isReplacing(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
