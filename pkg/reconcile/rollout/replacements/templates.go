package replacements

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// MaxConcurrent is the number of pools whose machines can be replaced at the same time, of
// all that request it.
func MaxConcurrent(ps *api.ProfileSource, all int) int {
	if ps == nil || ps.Spec.Rollout == nil || ps.Spec.Rollout.MaxConcurrent == nil {
		return 1 // the schema's default
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(ps.Spec.Rollout.MaxConcurrent, all, true) // 0 with an error, which the schema prevents
	return max(n, 1)
}

// TemplatePlan has the pools whose templates are annotated next.
type TemplatePlan struct {
	// due are in this order: those of earlier waves first.
	due []Candidate
	// free is how many of them can begin to replace machines. The ones after that are there to take
	// the place of those that cannot be patched.
	free int
}

// PlanTemplates plans to annotate the templates of pools whose machines are replaced next, so that
// at most limit pools are replacing machines. A pool that is replacing machines
// already gets the new annotation at once, because the new configuration can fix the
// current one, but it waits for maintenance windows, too.
func PlanTemplates(all []Candidate, limit int) TemplatePlan {
	out := TemplatePlan{free: limit}
	for _, c := range all {
		// Pools that are replacing machines count first, also those of later waves.
		if c.isReplacing() {
			out.free--
		}
		if c.due() && !c.waitsForWindow {
			out.due = append(out.due, c)
		}
	}
	slices.SortFunc(out.due, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.key(), b.key()))
	})
	return out
}

// InTurn calls annotate for the pools that are next. One that cannot be patched does not count.
func (p TemplatePlan) InTurn(annotate func(Candidate) (done bool)) {
	free := p.free
	for _, c := range p.due {
		begins := !c.isReplacing()
		if begins && free <= 0 {
			continue
		}
		if annotate(c) && begins {
			free--
		}
	}
}
