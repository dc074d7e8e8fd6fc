package replacements

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// Candidate is a pool whose machines are to boot from its current configuration, with all that
// decides about their replacement.
type Candidate struct {
	Pool *cluster.MachineDeployment // belongs to the cache: do not modify it
	Wave int32
	// IgnoresWindows is true if it does not wait for maintenance windows.
	IgnoresWindows bool
	// TemplateAnnotation is the current annotation of the template.
	TemplateAnnotation string
	// Current is the configuration that the pool has, zero if there is none.
	Current Configuration
	// Config is the input digest that the Secrets match; empty if machines are not to be
	// replaced now.
	Config   string
	Machines []waves.Machine
	// Timeline has the configurations that the machines can have; nil if NeedsTimeline reports
	// false.
	Timeline lineage.Timeline

	// stale is true while there are machines that were created with another
	// configuration, unless machine-controller already replaces them because the template
	// changed. Decide sets it.
	stale bool
	// waitsForWindow is true if the replacement must not begin before a maintenance window opens.
	// Decide sets it.
	waitsForWindow bool
}

// Configuration is what a pool has in its OperatingSystemConfig.
type Configuration struct {
	InputDigest string
	Version     string // of the profile
	Created     time.Time
}

// NeedsTimeline reports whether a machine can have an earlier configuration than its pool, which
// the template does not announce yet.
func (c Candidate) NeedsTimeline() bool {
	return c.Config != c.TemplateAnnotation && slices.ContainsFunc(c.Machines, c.Current.isNewerThan)
}

// CanReplace reports whether the machines of a pool can be replaced now: it is not being deleted,
// paused or suspended, has no newer configuration that was rejected, and its source is not
// suspended. source is nil for pools without a user's ProfileSource.
func CanReplace(source *api.ProfileSource, md *cluster.MachineDeployment, rejected bool) bool {
	return md.DeletionTimestamp.IsZero() &&
		!md.Spec.Paused &&
		md.Annotations[api.AnnotationSuspend] != "true" &&
		!rejected &&
		(source == nil || !source.Spec.Suspend)
}

// Decide decides which of the candidates have machines with an earlier configuration,
// and whether their replacement waits for a maintenance window. opens describes when the next one
// opens, empty if machines can be replaced now. replacing has the pools that are replacing
// machines, or have to.
func Decide(candidates []Candidate, policy waves.Policy, opens string) (all []Candidate, replacing map[types.UID]bool) {
	all, replacing = slices.Clone(candidates), map[types.UID]bool{}
	for i := range all {
		c := &all[i]
		if c.Timeline != nil {
			c.stale = slices.ContainsFunc(c.Machines, func(m waves.Machine) bool {
				return c.Current.isNewerThan(m) && inputDigestOf(c.Timeline, m) != c.Current.InputDigest
			})
			c.waitsForWindow = opens != "" && !c.mayIgnoreWindow(policy)
		}
		replacing[c.Pool.UID] = c.due() || c.isReplacing()
	}
	return all, replacing
}

// ExcludePaused excludes pools with a paused version from the replacement of machines, and those
// with a version that another one supersedes: it can have been held, and they get the other one.
func ExcludePaused(all []Candidate, rollouts []api.RolloutStatus) []Candidate {
	out := slices.Clone(all)
	for i, c := range all {
		for _, ro := range rollouts {
			superseded := c.Pool.Annotations[api.AnnotationVersionPin] == "" &&
				slices.ContainsFunc(ro.Superseded, func(s api.RolloutStep) bool { return s.Version == c.Current.Version })
			if c.Pool.Annotations[api.AnnotationOSP] == ro.Profile && (superseded || ro.Held && ro.Version == c.Current.Version) {
				out[i].Config = ""
			}
		}
	}
	return out
}

// Count counts the pools for the status, nil for none.
func Count(all []Candidate) *api.Replacements {
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

// DescribeWaiting returns which pools wait for the maintenance window that opens describes, "" for
// none.
func DescribeWaiting(all []Candidate, opens string) string {
	var waiting []string
	for _, c := range all {
		if c.due() && c.waitsForWindow {
			waiting = append(waiting, c.key())
		}
	}
	if len(waiting) == 0 {
		return ""
	}
	return fmt.Sprintf("the replacement of machines waits for %s: %s", opens, waves.JoinPools(waiting))
}

// due reports whether the machines must be replaced, and the replacement has not begun.
func (c Candidate) due() bool { return c.Config != "" && c.TemplateAnnotation != c.Config && c.stale }

// isReplacing reports whether machine-controller is replacing machines, according to the
// MachineDeployment. A machine that joined and is now unavailable does not count.
func (c Candidate) isReplacing() bool {
	if c.TemplateAnnotation == "" || c.Pool.Spec.Paused {
		return false
	}
	wanted, s := int32(1), c.Pool.Status // machine-controller's default
	if c.Pool.Spec.Replicas != nil {
		wanted = *c.Pool.Spec.Replicas
	}
	return s.ObservedGeneration < c.Pool.Generation || s.UpdatedReplicas != s.Replicas || s.UpdatedReplicas < wanted ||
		s.AvailableReplicas != s.Replicas && c.isBooting()
}

// isBooting reports whether there are machines that have not joined yet.
func (c Candidate) isBooting() bool {
	return slices.ContainsFunc(c.Machines, func(m waves.Machine) bool { return !m.Leaving && !m.Joined })
}

// mayIgnoreWindow reports whether the machines of a pool are replaced outside of maintenance windows,
// too: the pool ignores windows, it returns to an earlier configuration, or a user released
// the version for its wave, so that its delivery does not wait.
func (c Candidate) mayIgnoreWindow(policy waves.Policy) bool {
	return c.IgnoresWindows || isRevert(c.Timeline) || policy.Allows(c.Current.Version, c.Wave)
}

// key is the name of the pool in messages, "namespace/name".
func (c Candidate) key() string { return c.Pool.Namespace + "/" + c.Pool.Name }

// isNewerThan reports whether a configuration was created after a machine. It is false for
// machines that machine-controller deletes or replaces in any case.
func (c Configuration) isNewerThan(m waves.Machine) bool {
	return c.InputDigest != "" && !m.Leaving && !m.Replaced && m.Created.Before(c.Created)
}
