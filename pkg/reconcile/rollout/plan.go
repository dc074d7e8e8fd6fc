package rollout

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/replacements"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// plan is what apply writes, in the order of these fields, and when the next run is.
type plan struct {
	// source has the new status, nil if the status remains.
	source    *api.ProfileSource
	templates replacements.TemplatePlan
	// next is the time until the next run if nothing changes, 0 for never.
	next time.Duration
}

// newPlan decides how far every version is rolled out, and the machines of which pools are replaced.
func newPlan(seen *observed) plan {
	var policy waves.Policy
	if seen.source != nil {
		policy, _ = waves.PolicyOf(seen.source) // observe warns about the error
		policy.WaitsFor = seen.windows.waitsFor[api.WindowWaves]
	}
	candidates, replacing := replacements.Decide(seen.candidates, policy, seen.windows.waitsFor[api.WindowReplace])
	rollouts, again := decideRollouts(seen, policy, replacing)
	candidates = replacements.ExcludePaused(candidates, rollouts)
	return plan{
		source:    planStatus(seen, rollouts, candidates),
		templates: replacements.PlanTemplates(candidates, replacements.MaxConcurrent(seen.source, len(candidates))),
		next:      waves.EarliestNonZero(again, seen.untilWindow),
	}
}

// decideRollouts decides about the rollout of every profile. It returns the time until the next
// decision if nothing changes, 0 for never. replacing has the pools that are replacing machines,
// or have to.
func decideRollouts(seen *observed, policy waves.Policy, replacing map[types.UID]bool) (out []api.RolloutStatus, again time.Duration) {
	if seen.source == nil || !seen.source.HasWaves() {
		return nil, 0
	}
	for _, entry := range seen.source.Status.Profiles {
		had := seen.source.RolloutOf(entry.Name)
		if waves.IsDoneForCurrent(entry, had) {
			out = append(out, *had)
			continue
		}
		pools := slices.Clone(seen.following[entry.Name])
		for i := range pools {
			pools[i].Replacing = replacing[seen.pools[pools[i].Key].UID]
		}
		next, wait := waves.NextStatus(entry, had, pools, policy, seen.now)
		out = append(out, next)
		again = waves.EarliestNonZero(again, wait)
	}
	return out, again
}

// planStatus returns the ProfileSource with its new status, nil if there is no source, or nothing
// new.
func planStatus(seen *observed, rollouts []api.RolloutStatus, candidates []replacements.Candidate) *api.ProfileSource {
	if seen.source == nil {
		return nil
	}
	after := seen.source.DeepCopy()
	after.Status.Rollouts = rollouts
	after.Status.Replacements = replacements.Count(candidates)
	after.Status.MaintenanceWindows = seen.windows.status
	waves.SetCondition(after, seen.windows.invalid, replacements.DescribeWaiting(candidates, seen.windows.waitsFor[api.WindowReplace]))
	if equality.Semantic.DeepEqual(seen.source.Status, after.Status) {
		return nil
	}
	after.Summarize() // not before: a summary alone is no reason for a write
	return after
}
