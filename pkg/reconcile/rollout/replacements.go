package rollout

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// candidate is a pool whose machines are to boot from its current configuration.
type candidate struct {
	md   *cluster.MachineDeployment // belongs to the cache: do not modify it
	wave int32
	// config is the input digest that the Secrets match; empty if machines are not to be
	// replaced now.
	config string
	// templateAnnotation is the current annotation of the template.
	templateAnnotation string
	// stale is true while there are machines that were created with another
	// configuration, unless machine-controller already replaces them because the template
	// changed.
	stale bool
	// waitsForWindow is true if the replacement must not begin before a maintenance window opens.
	waitsForWindow bool
	// booting is true while there are machines that have not joined yet.
	booting bool
}

// due reports whether the machines must be replaced, and the replacement has not begun.
func (c candidate) due() bool { return c.config != "" && c.templateAnnotation != c.config && c.stale }

// isReplacing reports whether machine-controller is replacing machines, according to the
// MachineDeployment. A machine that joined and is now unavailable does not count.
func (c candidate) isReplacing() bool {
	if c.templateAnnotation == "" || c.md.Spec.Paused {
		return false
	}
	wanted, s := int32(1), c.md.Status // machine-controller's default
	if c.md.Spec.Replicas != nil {
		wanted = *c.md.Spec.Replicas
	}
	return s.ObservedGeneration < c.md.Generation || s.UpdatedReplicas != s.Replicas || s.UpdatedReplicas < wanted ||
		s.AvailableReplicas != s.Replicas && c.booting
}

// decideReplacements decides which of the candidates have machines with an earlier configuration,
// and whether their replacement waits for a maintenance window. replacing has the pools that are
// replacing machines, or have to.
func decideReplacements(seen *observed, policy waves.Policy) (all []candidate, replacing map[types.UID]bool) {
	all, replacing = slices.Clone(seen.candidates), map[types.UID]bool{}
	for i := range all {
		c := &all[i]
		if t := seen.timelines[c.md.UID]; t != nil {
			have := seen.configOf(c.md)
			c.stale = slices.ContainsFunc(seen.machines[c.md.UID], func(m waves.Machine) bool { return have.isNewerThan(m) && inputDigestOf(t, m) != have.digest })
			c.waitsForWindow = seen.windows.waitsFor[api.WindowReplace] != "" && !mayIgnoreWindow(c, t, policy, have.version)
		}
		replacing[c.md.UID] = c.due() || c.isReplacing()
	}
	return all, replacing
}

// mustNotReplace reports whether the machines of a pool remain for now: the pool is being deleted, is
// paused or suspended, has a newer configuration that was rejected, or its source is suspended.
func mustNotReplace(source *api.ProfileSource, md *cluster.MachineDeployment, have activeConfig) bool {
	return !md.DeletionTimestamp.IsZero() ||
		md.Spec.Paused ||
		md.Annotations[api.AnnotationSuspend] == "true" ||
		!have.rejectedSince.IsZero() ||
		(source != nil && source.Spec.Suspend)
}

// isNewerThan reports whether a configuration was created after a machine. It is false for
// machines that machine-controller deletes or replaces in any case.
func (c activeConfig) isNewerThan(m waves.Machine) bool {
	return c.digest != "" && !m.Leaving && !m.Replaced && m.Created.Before(c.created)
}

// mayIgnoreWindow reports whether the machines of a pool are replaced outside of maintenance windows,
// too: the pool ignores windows, it returns to an earlier configuration, or a user released
// the version for its wave, so that its delivery does not wait.
func mayIgnoreWindow(c *candidate, t lineage.Timeline, policy waves.Policy, version string) bool {
	return ignoresWindows(c.md) || isRevert(t) || policy.Allows(version, c.wave)
}

// maxConcurrent is the number of pools whose machines can be replaced at the same time, of
// all that request it.
func maxConcurrent(ps *api.ProfileSource, all int) int {
	if ps == nil || ps.Spec.Rollout == nil || ps.Spec.Rollout.MaxConcurrent == nil {
		return 1 // the schema's default
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(ps.Spec.Rollout.MaxConcurrent, all, true) // 0 with an error, which the schema prevents
	return max(n, 1)
}

// templatePlan has the pools whose templates are annotated next.
type templatePlan struct {
	// due are in this order: those of earlier waves first.
	due []candidate
	// free is how many of them can begin to replace machines. The ones after that are there to take
	// the place of those that cannot be patched.
	free int
}

// planTemplates plans to annotate the templates of pools whose machines are replaced next, so that
// at most limit pools are replacing machines. A pool that is replacing machines
// already gets the new annotation at once, because the new configuration can fix the
// current one, but it waits for maintenance windows, too.
func planTemplates(all []candidate, limit int) templatePlan {
	out := templatePlan{free: limit}
	for _, c := range all {
		// Pools that are replacing machines count first, also those of later waves.
		if c.isReplacing() {
			out.free--
		}
		if c.due() && !c.waitsForWindow {
			out.due = append(out.due, c)
		}
	}
	slices.SortFunc(out.due, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.wave, b.wave), cmp.Compare(keyOf(a.md), keyOf(b.md)))
	})
	return out
}

// inTurn calls annotate for the pools that are next. One that cannot be patched does not count.
func (p templatePlan) inTurn(annotate func(candidate) (done bool)) {
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

// countReplacements counts the pools, nil for none.
func countReplacements(all []candidate) *api.Replacements {
	if len(all) == 0 {
		return nil
	}
	out := &api.Replacements{}
	for _, c := range all {
		switch {
		case c.isReplacing():
			out.Replacing++
		case c.due():
			out.Waiting++
		}
	}
	return out
}
