package replacements

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func TestTemplatesInTurn(t *testing.T) {
	made := func(name string, wave int32, annotation, config string, stale, busy bool) Candidate {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 2}}
		md.Status = cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		if busy {
			md.Status.ObservedGeneration = 1
		}
		return Candidate{Pool: md, Wave: wave, TemplateAnnotation: annotation, Config: config, stale: stale}
	}
	for name, c := range map[string]struct {
		all   []Candidate
		limit int
		want  string
	}{
		"the earlier wave first":                                            {[]Candidate{made("a", 5, "", "d", true, false), made("b", 0, "", "d", true, false)}, 1, "b"},
		"as many as allowed":                                                {[]Candidate{made("a", 5, "c", "d", true, false), made("b", 5, "c", "d", true, false), made("c", 5, "c", "d", true, false)}, 2, "a b"},
		"a current annotation remains":                                      {[]Candidate{made("a", 5, "d", "d", true, false)}, 5, ""},
		"no machine has an earlier configuration":                           {[]Candidate{made("a", 5, "", "d", false, false)}, 5, ""},
		"the Secrets are not written yet":                                   {[]Candidate{made("a", 5, "c", "", true, false)}, 5, ""},
		"a pool that cannot be patched does not count":                      {[]Candidate{made("rejected", 0, "", "d", true, false), made("b", 5, "", "d", true, false), made("c", 5, "", "d", true, false)}, 1, "b"},
		"a pool of an earlier wave is replacing machines":                   {[]Candidate{made("a", 0, "d", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, ""},
		"a pool that is replacing machines gets another annotation at once": {[]Candidate{made("a", 0, "c", "d", true, false), made("b", 5, "c", "d", true, true)}, 1, "b"},
		"a pool without an annotation is not replacing machines":            {[]Candidate{made("a", 0, "", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, "a"},
		"more pools are replacing machines than the limit":                  {[]Candidate{made("a", 0, "c", "c", true, true), made("b", 5, "c", "c", true, true), made("c", 5, "c", "d", true, false)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			PlanTemplates(c.all, c.limit).InTurn(func(c Candidate) bool {
				if c.Pool.Name == "rejected" {
					return false
				}
				got = append(got, c.Pool.Name)
				return true
			})
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

func TestMaxConcurrent(t *testing.T) {
	for text, want := range map[string]int{"": 1, "3": 3, "10%": 2, "1%": 1, "100%": 11} {
		ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{}}}
		if text != "" {
			ps.Spec.Rollout.MaxConcurrent = new(intstr.Parse(text))
		}
		if got := MaxConcurrent(ps, 11); got != want {
			t.Errorf("%q of 11: %d, want %d", text, got, want)
		}
	}
	if got := MaxConcurrent(&api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{MaxConcurrent: new(intstr.Parse("10%"))}}}, 0); got != 1 {
		t.Errorf("10%% of none: %d", got)
	}
}
