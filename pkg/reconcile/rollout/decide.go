package rollout

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
	// bootLimit is the time after which a machine without a Node counts as failed.
	bootLimit = 30 * time.Minute
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
	reasonDone          = "Done"
	reasonRolledBack    = "RolledBack"
)

// rolloutPolicy are the settings of the ProfileSource for its rollouts.
type rolloutPolicy struct {
	pause     bool
	suspended bool // the source is suspended: nothing begins
	window    time.Duration
	release   release
}

// release lets a version reach all waves up to one.
type release struct {
	version string
	wave    int32
}

// policyOf reads the settings. An annotation that causes an error is ignored.
func policyOf(ps *api.ProfileSource) (rolloutPolicy, error) {
	t := rolloutPolicy{pause: true, suspended: ps.Spec.Suspend, window: defaultWindow}
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

// allows reports whether a version is released for a wave.
func (t rolloutPolicy) allows(version string, wave int32) bool {
	return version != "" && t.release.version == version && wave <= t.release.wave
}

// pool is the state of one pool in a rollout.
type pool struct {
	key  string // "namespace/name"
	wave int32
	// configured is true if it has a configuration, and since is its time. version is the
	// version of the profile that it has, with its object only if requested.
	configured bool
	version    api.RolloutVersion
	since      time.Time
	// config is the input digest of that configuration.
	config string
	// settled is true if its Secrets match that configuration.
	settled bool
	// rejectedSince is the time since which it cannot have what it requests, zero if it can;
	// rejectedVersion is the version, if the version is the reason.
	rejectedSince   time.Time
	rejectedVersion string
	// replacing is true while its machines are being replaced, or are to be replaced.
	replacing bool
	machines  []machine
}

// machine is a machine of a pool.
type machine struct {
	name    string
	created time.Time
	// config is the template annotation that it was created with.
	config string
	// joined is true if it has a Node that is Ready, or was Ready for long. Before that,
	// waits is the time since which it is not Ready.
	joined bool
	waits  time.Time
	// revision is the one of the MachineDeployment that it was created for, 0 if unknown.
	// replaced is true if there is a newer one: machine-controller replaces the machine
	// regardless of annotations.
	revision uint64
	replaced bool
	// lost is when it was deleted before it joined, although it was still desired.
	lost time.Time
	// reported is why machine-controller could not create it, if known.
	reported string
	// leaving is true while it is being deleted.
	leaving bool
}

func (p pool) adopted(version string) bool { return p.version.Version == version && p.settled }

// fresh returns the machines created since the pool has its configuration, and those that
// failed with another configuration of that version.
func (p pool) fresh(failed []api.RolloutFailure) []machine {
	return slices.DeleteFunc(slices.Clone(p.machines), func(m machine) bool {
		return m.created.Before(p.since) && !failedIn(failed, p.key, m.name)
	})
}

func failedIn(failures []api.RolloutFailure, pool, machine string) bool {
	return slices.ContainsFunc(failures, func(f api.RolloutFailure) bool { return f.Pool == pool && f.Machine == machine })
}

// decide computes the new state of a profile's rollout. It returns the time until the
// next decision if nothing changes, 0 for never.
func decide(entry api.ProfileEntry, had *api.RolloutStatus, pools []pool, t rolloutPolicy, now time.Time) (api.RolloutStatus, time.Duration) {
	if t.suspended {
		return suspend(entry, had, pools, now), 0
	}
	r := begin(entry, had, pools, now)
	if entry.Removed || r.Done {
		return r, 0
	}
	if r.Wave < 0 { // it was suspended before it began
		if r = start(r, pools, now); r.Done {
			return r, 0
		}
	}
	r.Pools.Total = int32(len(pools))
	// Several waves can pass in one run, such as those whose pools have the version already.
	for {
		r = releaseWaves(r, pools, t, now)
		r.FailingBefore = failingBefore(r, had, pools, now)
		v := evaluateWave(r, pools, t, now)
		r.Pools.Adopted, r.Machines, r.Failures = v.adopted, v.machines, v.failures
		r.Held, r.Reason, r.Message = v.held, v.reason, v.message
		if v.reason != "" {
			return r, v.again
		}
		next, more := waveAfter(pools, r.Wave)
		if !more {
			return finish(r), 0
		}
		r = reach(r, next, now)
	}
}

// begin returns the rollout to continue: the existing one, or that of a new version.
func begin(entry api.ProfileEntry, had *api.RolloutStatus, pools []pool, now time.Time) api.RolloutStatus {
	target := api.RolloutVersion{Version: entry.Version, Object: entry.Object, Digest: entry.Digest, Commit: entry.Commit, SelectedBy: entry.SelectedBy}
	fresh := api.RolloutStatus{Profile: entry.Name, RolloutVersion: target, Wave: -1, Since: metav1.NewTime(now)}
	if had == nil {
		base, ok := baseline(pools)
		if !ok || entry.Removed || same(base, target) {
			return finish(fresh)
		}
		fresh.From = &base
		return start(fresh, pools, now)
	}
	old := *had.DeepCopy()
	if same(old.RolloutVersion, target) || entry.Removed {
		if same(old.RolloutVersion, target) {
			old.RolloutVersion = target // another commit can have selected it
		}
		return old
	}
	if old.Done {
		fresh.From = &old.RolloutVersion
		return start(fresh, pools, now)
	}
	if old.From != nil && same(*old.From, target) {
		// The previous version is available to all waves at once: pools that never left
		// it also have it.
		fresh.From = &old.RolloutVersion
		back := finish(fresh)
		back.Reason = reasonRolledBack
		back.Message = fmt.Sprintf("%s was withdrawn after it reached wave %d; the pools that had it return to %s at once", old.Version, old.Wave, target.Version)
		return back
	}
	fresh.From = old.From
	// A version that was superseded continues at the wave that it had reached.
	if i := slices.IndexFunc(old.Superseded, func(s api.RolloutStep) bool { return same(s.RolloutVersion, target) }); i >= 0 {
		fresh.Superseded = old.Superseded[i+1:]
		return reach(fresh, old.Superseded[i].Wave, now)
	}
	fresh.Superseded = append([]api.RolloutStep{{RolloutVersion: old.RolloutVersion, Wave: old.Wave}}, old.Superseded...)
	return start(fresh, pools, now)
}

// suspend changes nothing. It records which version pools had before a new one, because
// without it they get no version.
func suspend(entry api.ProfileEntry, had *api.RolloutStatus, pools []pool, now time.Time) api.RolloutStatus {
	var r api.RolloutStatus
	if had != nil {
		r = *had.DeepCopy()
	} else if r = begin(entry, nil, pools, now); !r.Done {
		r.Wave = -1
	}
	if !r.Done && !r.Held {
		r.Reason, r.Message = reasonSuspended, "the ProfileSource is suspended: no wave begins, and no machines are replaced, before spec.suspend is false"
	}
	return r
}

// failingBefore returns the pools whose machines already failed to join when they got the
// version. Pools that failed with the previous version of an unfinished rollout are not
// included: this version must fix them.
func failingBefore(r api.RolloutStatus, had *api.RolloutStatus, pools []pool, now time.Time) []string {
	out := slices.Clone(r.FailingBefore)
	for _, p := range pools {
		given := had != nil && same(had.RolloutVersion, r.RolloutVersion) && p.wave <= had.Wave
		blamed := had != nil && slices.ContainsFunc(had.Failures, func(f api.RolloutFailure) bool { return f.Pool == p.key })
		if p.wave <= r.Wave && !given && !blamed && p.failing(now) && !slices.Contains(out, p.key) && len(out) < maxFailing {
			out = append(out, p.key)
		}
	}
	return out
}

// failing reports whether a machine of the pool fails to join, or failed.
func (p pool) failing(now time.Time) bool {
	return slices.ContainsFunc(p.machines, func(m machine) bool {
		return !m.joined && (!m.lost.IsZero() || !m.leaving && !now.Before(m.limit()))
	})
}

// limit is the time by which it must have joined.
func (m machine) limit() time.Time { return later(m.created, m.waits).Add(bootLimit) }

// evidence is what remains of a machine that was deleted before it joined. With
// machine-controller's -join-cluster-timeout that is earlier than bootLimit: KubeOne sets 15
// minutes.
func (m machine) evidence() string {
	text := fmt.Sprintf("%s after it was created", m.lost.Sub(m.created).Round(time.Second))
	if m.reported != "" {
		text += ", and machine-controller reported " + redact.Shorten(redact.Printable(m.reported), maxReported)
	}
	return text
}

// start lets the first wave have a version. Without pools the rollout is done.
func start(r api.RolloutStatus, pools []pool, now time.Time) api.RolloutStatus {
	first, any := waveAfter(pools, -1)
	if !any {
		return finish(r)
	}
	return reach(r, first, now)
}

// reach lets a wave, and those before it, have the version.
func reach(r api.RolloutStatus, wave int32, now time.Time) api.RolloutStatus {
	r.Wave, r.Since = wave, metav1.NewTime(now)
	r.Superseded = slices.DeleteFunc(slices.Clone(r.Superseded), func(s api.RolloutStep) bool { return s.Wave <= wave })
	if len(r.Superseded) == 0 {
		r.Superseded = nil
	}
	return r
}

// finish ends a rollout: all waves have the version.
func finish(r api.RolloutStatus) api.RolloutStatus {
	r.Wave, r.Superseded, r.Failures, r.FailingBefore = api.LastWave, nil, nil, nil
	r.Done, r.Held, r.Reason, r.Message = true, false, reasonDone, ""
	return r
}

// releaseWaves lets released waves have the version.
func releaseWaves(r api.RolloutStatus, pools []pool, t rolloutPolicy, now time.Time) api.RolloutStatus {
	for {
		next, more := waveAfter(pools, r.Wave)
		if !more || !t.allows(r.Version, next) {
			return r
		}
		r = reach(r, next, now)
	}
}

// same reports whether two versions are equal. A version always has the same content,
// except in a directory.
func same(a, b api.RolloutVersion) bool {
	return a.Version == b.Version && a.Object == b.Object && (a.Digest == b.Digest || a.Digest == "" || b.Digest == "")
}

// waveAfter returns the next wave that has pools.
func waveAfter(pools []pool, wave int32) (next int32, ok bool) {
	for _, p := range pools {
		if p.wave > wave && (!ok || p.wave < next) {
			next, ok = p.wave, true
		}
	}
	return next, ok
}

// baseline returns the version that most pools have, for a profile without an earlier
// rollout.
func baseline(pools []pool) (api.RolloutVersion, bool) {
	count := map[string]int{}
	for _, p := range pools {
		if p.version.Object != "" {
			count[p.version.Object]++
		}
	}
	var best api.RolloutVersion
	for _, p := range pools {
		v := p.version
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
	held            bool
	reason, message string
	again           time.Duration
}

// wait sets what the wave waits for, and the latest time for the next decision.
func (v waveStatus) wait(reason, message string) waveStatus {
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
func evaluateWave(r api.RolloutStatus, pools []pool, t rolloutPolicy, now time.Time) waveStatus {
	v, s := survey(r, pools, t, now)
	switch {
	case len(s.adopting) > 0:
		return v.wait(reasonAdopting, fmt.Sprintf("wave %d adopts %s: %s", r.Wave, r.Version, named(s.adopting, "pool")))
	// A user's release overrides failures, but every pool still adopts the version first.
	case t.allows(r.Version, r.Wave):
		v.again = 0
		return v
	case len(v.failures) > 0 && t.pause:
		v.held = true
		reason := reasonPoolsRejected
		if v.failures[0].Machine != "" {
			reason = reasonNotJoined
		}
		return v.wait(reason, heldMessage(r, v.failures))
	case len(s.replacing) > 0:
		return v.wait(reasonReplacing, fmt.Sprintf("the machines of wave %d are replaced: %s", r.Wave, named(s.replacing, "pool")))
	case s.joined > 0 && s.waiting == 0 && len(v.failures) == 0:
		return v
	}
	left := s.quiet.Add(t.window).Sub(now)
	switch {
	case left > 0:
		v.again = earliestNonZero(v.again, left)
	case s.joined > 0 || s.booting == 0:
		return v
	}
	// A window proves nothing while all new machines are still booting.
	switch {
	case s.waiting > 0:
		return v.wait(reasonBooting, fmt.Sprintf("new machines of wave %d boot; the next wave begins when they have joined, or when some of them have joined and there was no failure for %s", r.Wave, t.window))
	case len(v.failures) > 0:
		return v.wait(reasonWindow, fmt.Sprintf("after %s without another failure the next wave begins; so far: %s", t.window, listed(v.failures)))
	}
	return v.wait(reasonWindow, fmt.Sprintf("no machine of wave %d is new; without failures the next wave begins after %s", r.Wave, t.window))
}

// survey counts pools and machines.
func survey(r api.RolloutStatus, pools []pool, t rolloutPolicy, now time.Time) (waveStatus, waveCounts) {
	v, s := waveStatus{}, waveCounts{quiet: r.Since.Time}
	for _, f := range r.Failures { // failures are the only record of deleted machines
		if f.Reason == api.FailureDeleted && !t.allows(r.Version, f.Wave) {
			v.failures = append(v.failures, f)
		}
	}
	for _, p := range pools {
		if p.wave > r.Wave {
			continue
		}
		switch {
		case p.adopted(r.Version):
			v.adopted++
		case p.rejectedVersion == r.Version && !p.rejectedSince.Before(r.Since.Time) && !t.allows(r.Version, p.wave):
			v.failures = append(v.failures, api.RolloutFailure{Pool: p.key, Wave: p.wave, Reason: api.FailureRefused, Since: metav1.NewTime(p.rejectedSince)})
			continue
		case p.configured && (p.rejectedSince.IsZero() || p.rejectedVersion != "" && p.rejectedVersion != r.Version):
			s.adopting = append(s.adopting, p.key)
			continue
		default: // new, or failing with every version: not used to evaluate this version
			continue
		}
		if p.wave == r.Wave && p.since.After(s.quiet) {
			s.quiet = p.since
		}
		if p.replacing && p.wave == r.Wave && !slices.Contains(r.FailingBefore, p.key) {
			s.replacing = append(s.replacing, p.key)
		}
		v.machinesOf(p, r, t, now, &s)
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

// machinesOf counts the new machines of a pool.
func (v *waveStatus) machinesOf(p pool, r api.RolloutStatus, t rolloutPolicy, now time.Time, s *waveCounts) {
	for _, m := range p.fresh(r.Failures) {
		failed := func(reason string, since time.Time, message string) {
			if !failedIn(v.failures, p.key, m.name) && !t.allows(r.Version, p.wave) {
				v.failures = append(v.failures, api.RolloutFailure{Pool: p.key, Wave: p.wave, Machine: m.name, Reason: reason, Since: metav1.NewTime(since), Message: message})
			}
		}
		limit := m.limit()
		switch {
		case m.joined && m.created.Equal(p.since) && (m.config == "" || m.config != p.config):
			continue // times in objects have a precision of seconds: the machine can be older than the configuration
		case m.joined:
			v.machines.Joined++
			if p.wave == r.Wave {
				s.joined++
			}
			continue
		case slices.Contains(r.FailingBefore, p.key):
			continue
		case !m.lost.IsZero() && !now.Before(m.lost.Add(lostGrace)):
			failed(api.FailureDeleted, m.lost, m.evidence())
			continue
		case !m.lost.IsZero():
			v.again = earliestNonZero(v.again, m.lost.Add(lostGrace).Sub(now))
			if p.wave == r.Wave {
				s.booting++
			}
		case m.leaving:
			continue
		case now.Before(limit):
			v.again = earliestNonZero(v.again, limit.Sub(now))
			if p.wave == r.Wave {
				s.booting++
			}
		default:
			failed(api.FailureNotJoined, limit, "")
		}
		v.machines.Waiting++
		if p.wave == r.Wave {
			s.waiting++
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliestNonZero returns the shorter of two waits; 0 means for ever.
func earliestNonZero(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
