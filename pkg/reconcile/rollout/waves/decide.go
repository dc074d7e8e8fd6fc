package waves

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

const (
	// BootLimit is the time after which a machine without a Node counts as failed.
	BootLimit = 30 * time.Minute
	// lostGrace is the time in which a MachineSet can report that it was scaled down,
	// before a deleted machine counts as a failure. The two events arrive through two
	// watches, and one of them can be behind this long after the API server was unavailable,
	// and a counted failure is never withdrawn.
	lostGrace = 30 * time.Second
	// defaultWindow is the default in the schema.
	defaultWindow = 30 * time.Minute
	// maxFailures is the number of failures in the status.
	maxFailures = 20
	// maxNamed is the number of failures in a message.
	maxNamed = 3
	// maxReported is the length of an error of machine-controller in a message, in bytes.
	maxReported = 256
	// maxCause is the length of a failure's cause, in bytes; the schema has it in characters.
	maxCause = 512
	// maxFailing is the number of pools in the status that failed before.
	maxFailing = 100
)

// What a rollout waits for, in status.rollouts[].reason.
const (
	reasonAdopting      = "Adopting"
	reasonReplacing     = "Replacing"
	reasonBooting       = "MachinesBooting"
	reasonWindow        = "Window"
	reasonNotJoined     = "MachinesNotJoined"
	reasonPoolsRejected = "PoolsRefused"
	reasonSuspended     = "Suspended"
	reasonMaintenance   = "MaintenanceWindow"
	reasonDone          = "Done"
	reasonRolledBack    = "RolledBack"
)

// Policy are the settings of the ProfileSource for its rollouts.
type Policy struct {
	pause     bool
	suspended bool // the source is suspended: nothing begins
	window    time.Duration
	release   release
	// WaitsFor describes the maintenance window that waves wait for, empty if none.
	WaitsFor string
}

// release lets a version reach all waves up to one.
type release struct {
	version string
	wave    int32
}

// PolicyOf reads the settings. An annotation that causes an error is ignored.
func PolicyOf(ps *api.ProfileSource) (Policy, error) {
	t := Policy{pause: true, suspended: ps.Spec.Suspend, window: defaultWindow}
	if spec := ps.Spec.Rollout; spec != nil {
		t.pause = spec.PauseOnFailure == nil || *spec.PauseOnFailure
		if spec.Window != nil {
			t.window = spec.Window.Duration
		}
	}
	version, wave, limited := strings.Cut(ps.Annotations[api.AnnotationRelease], "@")
	t.release = release{version, api.LastWave}
	if limited {
		n, err := strconv.ParseUint(wave, 10, 31)
		if err != nil || n > uint64(api.LastWave) {
			// An invalid wave must not release any, and no wave in the annotation means all.
			t.release = release{}
			return t, fmt.Errorf("annotation %s: expected a wave from 0 to 9 after @: correct or remove it", api.AnnotationRelease)
		}
		t.release.wave = int32(n)
	}
	return t, nil
}

// Allows reports whether a user released a version for a wave.
func (t Policy) Allows(version string, wave int32) bool {
	return version != "" && t.release.version == version && wave <= t.release.wave
}

// Pool is the state of one pool in a rollout.
type Pool struct {
	Key  string // "namespace/name"
	Wave int32
	// Configured is true if it has a configuration, and Since is its time. Version is the
	// version of the profile that it has, with its object only if requested.
	Configured bool
	Version    api.RolloutVersion
	Since      time.Time
	// Config is the input digest of that configuration.
	Config string
	// Settled is true if its Secrets match that configuration.
	Settled bool
	// RejectedSince is the time since which it cannot have what it requests, zero if it can;
	// RejectedVersion is the version, if the version is the reason.
	RejectedSince   time.Time
	RejectedVersion string
	// Replacing is true while its machines are being replaced, or are to be replaced.
	Replacing bool
	// IgnoresWindows is true if it does not wait for maintenance windows.
	IgnoresWindows bool
	Machines       []Machine
}

// Machine is a machine of a pool.
type Machine struct {
	Name    string
	Created time.Time
	// Config is the template annotation that it was created with.
	Config string
	// Joined is true if it has a Node that is Ready, or was Ready for long. Before that,
	// Waits is the time since which it is not Ready.
	Joined bool
	Waits  time.Time
	// Revision is the one of the MachineDeployment that it was created for, 0 if unknown.
	// Replaced is true if there is a newer one: machine-controller replaces the machine
	// regardless of annotations.
	Revision uint64
	Replaced bool
	// Lost is when it was deleted before it joined, although it was still desired.
	Lost time.Time
	// Reported is why machine-controller could not create it, if known.
	Reported string
	// Leaving is true while it is being deleted.
	Leaving bool
	// Boot is what its scripts report, nil if they report no failure.
	Boot *api.MachineBootStatus
}

func (p Pool) adopted(version string) bool { return p.Version.Version == version && p.Settled }

// newOrFailedMachines returns the machines created since the pool has its configuration, and those that
// failed with another configuration of that version.
func (p Pool) newOrFailedMachines(failed []api.RolloutFailure) []Machine {
	return slices.DeleteFunc(slices.Clone(p.Machines), func(m Machine) bool {
		return m.Created.Before(p.Since) && !failedIn(failed, p.Key, m.Name)
	})
}

func failedIn(failures []api.RolloutFailure, pool, machine string) bool {
	return slices.ContainsFunc(failures, func(f api.RolloutFailure) bool { return f.Pool == pool && f.Machine == machine })
}

// NextStatus computes the new state of a profile's rollout. It returns the time until the
// next decision if nothing changes, 0 for never.
func NextStatus(entry api.ProfileEntry, had *api.RolloutStatus, pools []Pool, t Policy, now time.Time) (api.RolloutStatus, time.Duration) {
	if t.suspended {
		return suspendedRollout(entry, had, pools, now), 0
	}
	r := beginOrContinue(entry, had, pools, now)
	if entry.Removed || r.Done {
		return r, 0
	}
	r.Pools.Total = int32(len(pools))
	var again time.Duration // until the next failure of a wave that has begun
	// Several waves can pass in one run, such as those whose pools have the version already.
	for {
		r = advanceToReleasedWaves(r, pools, t, now)
		if r.Wave >= 0 { // otherwise it has not begun
			r.FailingBefore = failingBefore(r, had, pools, now)
			v := evaluateWave(r, pools, t, now)
			r.Pools.Adopted = v.adopted
			r.Machines = v.machines
			r.Failures = v.failures
			r.Held = v.paused
			r.Reason = v.reason
			r.Message = v.message
			if again = v.again; v.reason != "" {
				return r, again
			}
		}
		next, more := waveAfter(pools, r.Wave)
		switch {
		case !more:
			return finishRollout(r), 0
		case t.WaitsFor != "" && !r.Revert && slices.ContainsFunc(pools, func(p Pool) bool { return p.Wave == next && !p.IgnoresWindows }):
			r.Reason, r.Message = reasonMaintenance, fmt.Sprintf("wave %d waits for %s", next, t.WaitsFor)
			return r, again
		}
		r = advanceToWave(r, next, now)
	}
}

// beginOrContinue returns the rollout to continue: the existing one, or that of a new version,
// whose wave is -1.
func beginOrContinue(entry api.ProfileEntry, had *api.RolloutStatus, pools []Pool, now time.Time) api.RolloutStatus {
	target := api.RolloutVersion{Version: entry.Version, Object: entry.Object, Digest: entry.Digest, Commit: entry.Commit, SelectedBy: entry.SelectedBy}
	fresh := api.RolloutStatus{Profile: entry.Name, RolloutVersion: target, Wave: -1, Since: metav1.NewTime(now)}
	if had == nil {
		base, ok := mostCommonVersion(pools)
		if !ok || entry.Removed || same(base, target) {
			return finishRollout(fresh)
		}
		fresh.From = &base
		return fresh
	}
	old := *had.DeepCopy()
	if same(old.RolloutVersion, target) || entry.Removed {
		if same(old.RolloutVersion, target) {
			old.RolloutVersion = target // another commit can have selected it
		}
		return old
	}
	if old.Done {
		// After a return to the previous version, the withdrawn one is new again.
		returned := old.Revert || old.Reason == reasonRolledBack
		fresh.From, fresh.Revert = &old.RolloutVersion, !returned && old.From != nil && same(*old.From, target)
		return fresh
	}
	if old.From != nil && same(*old.From, target) {
		// The previous version is available to all waves at once: pools that never left
		// it also have it.
		fresh.From = &old.RolloutVersion
		back := finishRollout(fresh)
		back.Reason = reasonRolledBack
		back.Message = fmt.Sprintf("%s was withdrawn after it reached wave %d; the pools that had it return to %s at once", old.Version, old.Wave, target.Version)
		if old.Wave < 0 {
			back.Message = fmt.Sprintf("%s was withdrawn before its first wave", old.Version)
		}
		return back
	}
	fresh.From = old.From
	// A version that was superseded continues at the wave that it had reached.
	if i := slices.IndexFunc(old.Superseded, func(s api.RolloutStep) bool { return same(s.RolloutVersion, target) }); i >= 0 {
		fresh.Superseded = old.Superseded[i+1:]
		return advanceToWave(fresh, old.Superseded[i].Wave, now)
	}
	fresh.Superseded = old.Superseded
	if old.Wave >= 0 {
		fresh.Superseded = append([]api.RolloutStep{{RolloutVersion: old.RolloutVersion, Wave: old.Wave}}, old.Superseded...)
	}
	return fresh
}

// suspendedRollout returns the rollout of a suspended source, which advances no wave. It records
// which version pools had before a new one, because without it they get no version.
func suspendedRollout(entry api.ProfileEntry, had *api.RolloutStatus, pools []Pool, now time.Time) api.RolloutStatus {
	var r api.RolloutStatus
	if had != nil {
		r = *had.DeepCopy()
	} else {
		r = beginOrContinue(entry, nil, pools, now)
	}
	if !r.Done && !r.Held {
		r.Reason = reasonSuspended
		r.Message = "the ProfileSource is suspended: no wave begins, and no machines are replaced, before spec.suspend is false"
	}
	return r
}

// failingBefore returns the pools whose machines already failed to join when they got the
// version. Pools that failed with the previous version of an unfinished rollout are not
// included: this version must fix them. While it waited for a window, the failures of that version
// were no longer recorded, so every pool that has it is excluded.
func failingBefore(r api.RolloutStatus, had *api.RolloutStatus, pools []Pool, now time.Time) []string {
	out := slices.Clone(r.FailingBefore)
	for _, p := range pools {
		hadVersionBefore := had != nil && same(had.RolloutVersion, r.RolloutVersion) && p.Wave <= had.Wave
		blamed := had != nil && slices.ContainsFunc(had.Failures, func(f api.RolloutFailure) bool { return f.Pool == p.Key })
		if had != nil && had.Wave < 0 {
			blamed = blamed || slices.ContainsFunc(had.Superseded, func(s api.RolloutStep) bool { return same(s.RolloutVersion, p.Version) })
		}
		if p.Wave <= r.Wave && !hadVersionBefore && !blamed && p.failing(now) && !slices.Contains(out, p.Key) && len(out) < maxFailing {
			out = append(out, p.Key)
		}
	}
	return out
}

// failing reports whether a machine of the pool fails to join, or failed.
func (p Pool) failing(now time.Time) bool {
	return slices.ContainsFunc(p.Machines, func(m Machine) bool {
		return !m.Joined && (!m.Lost.IsZero() || !m.Leaving && (!now.Before(m.joinDeadline()) || m.Boot != nil && !now.Before(m.Boot.CountsFrom())))
	})
}

// joinDeadline is the time by which it must have joined.
func (m Machine) joinDeadline() time.Time {
	return slices.MaxFunc([]time.Time{m.Created, m.Waits}, time.Time.Compare).Add(BootLimit)
}

// describeLoss describes a machine that was deleted before it joined. With machine-controller's
// -join-cluster-timeout that is earlier than BootLimit: KubeOne sets 15 minutes.
func (m Machine) describeLoss() string {
	text := fmt.Sprintf("%s after it was created", m.Lost.Sub(m.Created).Round(time.Second))
	if m.Reported != "" {
		text += ", and machine-controller reported " + redact.Shorten(redact.RemoveControlChars(m.Reported), maxReported)
	}
	return text
}

// advanceToWave returns the rollout in which a wave, and those before it, have the version.
func advanceToWave(r api.RolloutStatus, wave int32, now time.Time) api.RolloutStatus {
	r.Wave, r.Since = wave, metav1.NewTime(now)
	r.Superseded = slices.DeleteFunc(slices.Clone(r.Superseded), func(s api.RolloutStep) bool { return s.Wave <= wave })
	if len(r.Superseded) == 0 {
		r.Superseded = nil
	}
	return r
}

// finishRollout ends a rollout: all waves have the version.
func finishRollout(r api.RolloutStatus) api.RolloutStatus {
	r.Wave = api.LastWave
	r.Superseded = nil
	r.Failures = nil
	r.FailingBefore = nil
	r.Done = true
	r.Held = false
	r.Reason = reasonDone
	r.Message = ""
	return r
}

// advanceToReleasedWaves lets released waves have the version.
func advanceToReleasedWaves(r api.RolloutStatus, pools []Pool, t Policy, now time.Time) api.RolloutStatus {
	for {
		next, more := waveAfter(pools, r.Wave)
		if !more || !t.Allows(r.Version, next) {
			return r
		}
		r = advanceToWave(r, next, now)
	}
}

// same reports whether two versions are equal. A version always has the same content,
// except in a directory.
func same(a, b api.RolloutVersion) bool {
	return a.Version == b.Version && a.Object == b.Object && (a.Digest == b.Digest || a.Digest == "" || b.Digest == "")
}

// waveAfter returns the next wave that has pools.
func waveAfter(pools []Pool, wave int32) (next int32, ok bool) {
	for _, p := range pools {
		if p.Wave > wave && (!ok || p.Wave < next) {
			next, ok = p.Wave, true
		}
	}
	return next, ok
}

// mostCommonVersion returns the version that most pools have, for a profile without an earlier
// rollout.
func mostCommonVersion(pools []Pool) (api.RolloutVersion, bool) {
	count := map[string]int{}
	for _, p := range pools {
		if p.Version.Object != "" {
			count[p.Version.Object]++
		}
	}
	var best api.RolloutVersion
	for _, p := range pools {
		v := p.Version
		if v.Object != "" && (best.Object == "" || cmp.Or(cmp.Compare(count[v.Object], count[best.Object]), cmp.Compare(best.Object, v.Object)) > 0) {
			best = v
		}
	}
	return best, best.Object != ""
}

// waveStatus is the state of a wave. Without a reason the next wave can begin.
type waveStatus struct {
	adopted         int32
	machines        api.RolloutMachines // of all pools that have the version
	failures        []api.RolloutFailure
	paused          bool
	reason, message string
	again           time.Duration
}

// withReason returns the status with what the wave waits for.
func (v waveStatus) withReason(reason, message string) waveStatus {
	v.reason, v.message = reason, message
	return v
}

// waveCounts counts the pools of a wave and of the waves before it.
type waveCounts struct {
	adopting, replacing []string
	joined, waiting     int       // machines of the wave itself
	booting             int       // machines that have not exceeded the limit
	quiet               time.Time // time of the last change in the wave
}

// evaluateWave evaluates the pools that have a version, or are to get it.
func evaluateWave(r api.RolloutStatus, pools []Pool, t Policy, now time.Time) waveStatus {
	v, s := countPoolsAndFailures(r, pools, t, now)
	switch {
	case len(s.adopting) > 0:
		return v.withReason(reasonAdopting, fmt.Sprintf("wave %d adopts %s: %s", r.Wave, r.Version, JoinPools(s.adopting)))
	// A user's release overrides failures, but every pool still adopts the version first.
	case t.Allows(r.Version, r.Wave):
		v.again = 0
		return v
	case len(v.failures) > 0 && t.pause:
		v.paused = true
		reason := reasonPoolsRejected
		if v.failures[0].Machine != "" {
			reason = reasonNotJoined
		}
		return v.withReason(reason, pausedMessage(r, v.failures))
	case len(s.replacing) > 0:
		return v.withReason(reasonReplacing, fmt.Sprintf("the machines of wave %d are replaced: %s", r.Wave, JoinPools(s.replacing)))
	case s.joined > 0 && s.waiting == 0 && len(v.failures) == 0:
		return v
	}
	left := s.quiet.Add(t.window).Sub(now)
	switch {
	case left > 0:
		v.again = EarliestNonZero(v.again, left)
	case s.joined > 0 || s.booting == 0:
		return v
	}
	// A window proves nothing while all new machines are still booting.
	switch {
	case s.waiting > 0:
		return v.withReason(reasonBooting, fmt.Sprintf("new machines of wave %d boot; the next wave begins when they have joined, or when some of them have joined and there was no failure for %s", r.Wave, t.window))
	case len(v.failures) > 0:
		return v.withReason(reasonWindow, fmt.Sprintf("after %s without another failure the next wave begins; so far: %s", t.window, listFailures(v.failures)))
	}
	return v.withReason(reasonWindow, fmt.Sprintf("no machine of wave %d is new; without failures the next wave begins after %s", r.Wave, t.window))
}

// countPoolsAndFailures counts the pools and machines of the waves that have the version.
func countPoolsAndFailures(r api.RolloutStatus, pools []Pool, t Policy, now time.Time) (waveStatus, waveCounts) {
	v, s := waveStatus{}, waveCounts{quiet: r.Since.Time}
	for _, f := range r.Failures { // failures are the only record of deleted machines
		if f.Reason == api.FailureDeleted && !t.Allows(r.Version, f.Wave) {
			v.failures = append(v.failures, f)
		}
	}
	for _, p := range pools {
		if p.Wave > r.Wave {
			continue
		}
		switch {
		case p.adopted(r.Version):
			v.adopted++
		case p.RejectedVersion == r.Version && !p.RejectedSince.Before(r.Since.Time) && !t.Allows(r.Version, p.Wave):
			v.failures = append(v.failures, api.RolloutFailure{Pool: p.Key, Wave: p.Wave, Reason: api.FailureRefused, Since: metav1.NewTime(p.RejectedSince)})
			continue
		case p.Configured && (p.RejectedSince.IsZero() || p.RejectedVersion != "" && p.RejectedVersion != r.Version):
			s.adopting = append(s.adopting, p.Key)
			continue
		default: // new, or failing with every version: not used to evaluate this version
			continue
		}
		if p.Wave == r.Wave && p.Since.After(s.quiet) {
			s.quiet = p.Since
		}
		if p.Replacing && p.Wave == r.Wave && !slices.Contains(r.FailingBefore, p.Key) {
			s.replacing = append(s.replacing, p.Key)
		}
		v.countMachines(p, r, t, now, &s)
	}
	slices.SortStableFunc(v.failures, func(a, b api.RolloutFailure) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Machine, b.Machine))
	})
	// The last failure counts for the quiet time, so this comes before the list is cut.
	if n := len(v.failures); n > 0 && v.failures[n-1].Since.After(s.quiet) {
		s.quiet = v.failures[n-1].Since.Time
	}
	v.failures = v.failures[:min(len(v.failures), maxFailures)]
	return v, s
}

// countMachines counts the new machines of a pool.
func (v *waveStatus) countMachines(p Pool, r api.RolloutStatus, t Policy, now time.Time, s *waveCounts) {
	for _, m := range p.newOrFailedMachines(r.Failures) {
		failed := func(reason string, since time.Time, message string) {
			if !failedIn(v.failures, p.Key, m.Name) && !t.Allows(r.Version, p.Wave) {
				v.failures = append(v.failures, api.RolloutFailure{
					Pool: p.Key, Wave: p.Wave, Machine: m.Name, Reason: reason, Since: metav1.NewTime(since), Message: message, Cause: m.cause(p.Key, r),
				})
			}
		}
		limit := m.joinDeadline()
		bootFails := m.Boot != nil && m.Boot.Version == r.Version
		if bootFails {
			limit = slices.MinFunc([]time.Time{limit, m.Boot.CountsFrom()}, time.Time.Compare)
		}
		switch {
		case m.Joined && m.Created.Equal(p.Since) && (m.Config == "" || m.Config != p.Config):
			continue // times in objects have a precision of seconds: the machine can be older than the configuration
		case m.Joined:
			v.machines.Joined++
			if p.Wave == r.Wave {
				s.joined++
			}
			continue
		case slices.Contains(r.FailingBefore, p.Key):
			continue
		case !m.Lost.IsZero() && !now.Before(m.Lost.Add(lostGrace)):
			failed(api.FailureDeleted, m.Lost, m.describeLoss())
			continue
		case !m.Lost.IsZero():
			v.again = EarliestNonZero(v.again, m.Lost.Add(lostGrace).Sub(now))
			if p.Wave == r.Wave {
				s.booting++
			}
		case m.Leaving:
			continue
		case now.Before(limit):
			v.again = EarliestNonZero(v.again, limit.Sub(now))
			if p.Wave == r.Wave {
				s.booting++
			}
		case bootFails:
			failed(api.FailureBootFailing, m.Boot.Since.Time, "")
		default:
			failed(api.FailureNotJoined, limit, "")
		}
		v.machines.Waiting++
		if p.Wave == r.Wave {
			s.waiting++
		}
	}
}

// cause describes where a machine's scripts failed, "" if they did not report it with the version. The
// report of a machine is deleted with it, so the last failure has it then.
func (m Machine) cause(pool string, r api.RolloutStatus) string {
	if m.Boot != nil && m.Boot.Version == r.Version {
		return redact.Shorten(redact.RemoveControlChars(m.Boot.Cause.String()), maxCause)
	}
	for _, f := range r.Failures {
		if f.Pool == pool && f.Machine == m.Name {
			return f.Cause
		}
	}
	return ""
}

// EarliestNonZero returns the shorter of two waits; 0 means for ever.
func EarliestNonZero(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// IsDoneForCurrent reports whether the rollout of a profile is done for the current version, so
// that it needs no decision.
func IsDoneForCurrent(entry api.ProfileEntry, had *api.RolloutStatus) bool {
	return had != nil && had.Done && had.SelectedBy == entry.SelectedBy && had.Commit == entry.Commit &&
		same(had.RolloutVersion, api.RolloutVersion{Version: entry.Version, Object: entry.Object, Digest: entry.Digest})
}
