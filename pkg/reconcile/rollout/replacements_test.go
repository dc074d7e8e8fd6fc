package rollout

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

func TestTemplatesInTurn(t *testing.T) {
	made := func(name string, wave int32, annotation, config string, stale, busy bool) candidate {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 2}}
		md.Status = cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		if busy {
			md.Status.ObservedGeneration = 1
		}
		return candidate{md: md, wave: wave, templateAnnotation: annotation, config: config, stale: stale}
	}
	for name, c := range map[string]struct {
		all   []candidate
		limit int
		want  string
	}{
		"the earlier wave first":                                            {[]candidate{made("a", 5, "", "d", true, false), made("b", 0, "", "d", true, false)}, 1, "b"},
		"as many as allowed":                                                {[]candidate{made("a", 5, "c", "d", true, false), made("b", 5, "c", "d", true, false), made("c", 5, "c", "d", true, false)}, 2, "a b"},
		"a current annotation remains":                                      {[]candidate{made("a", 5, "d", "d", true, false)}, 5, ""},
		"no machine has an earlier configuration":                           {[]candidate{made("a", 5, "", "d", false, false)}, 5, ""},
		"the Secrets are not written yet":                                   {[]candidate{made("a", 5, "c", "", true, false)}, 5, ""},
		"a pool that cannot be patched does not count":                      {[]candidate{made("rejected", 0, "", "d", true, false), made("b", 5, "", "d", true, false), made("c", 5, "", "d", true, false)}, 1, "b"},
		"a pool of an earlier wave is replacing machines":                   {[]candidate{made("a", 0, "d", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, ""},
		"a pool that is replacing machines gets another annotation at once": {[]candidate{made("a", 0, "c", "d", true, false), made("b", 5, "c", "d", true, true)}, 1, "b"},
		"a pool without an annotation is not replacing machines":            {[]candidate{made("a", 0, "", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, "a"},
		"more pools are replacing machines than the limit":                  {[]candidate{made("a", 0, "c", "c", true, true), made("b", 5, "c", "c", true, true), made("c", 5, "c", "d", true, false)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			planTemplates(c.all, c.limit).inTurn(func(c candidate) bool {
				if c.md.Name == "rejected" {
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
		"done":                                {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, false},
		"the change is not observed yet":      {cluster.MachineDeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, true},
		"old machines exist":                  {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1, AvailableReplicas: 4}, false, true},
		"new machines boot":                   {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, true, true},
		"a Node is not Ready for days":        {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, false, false},
		"it has fewer machines than replicas": {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false, true},
	} {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: c.status}
		three := int32(3)
		md.Spec.Replicas = &three
		if got := (candidate{md: md, templateAnnotation: "d", booting: c.booting}).isReplacing(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
