package rollout

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// setCondition sets whether all pools have the current versions. Without waves there is
// no condition.
func setCondition(ps *api.ProfileSource) {
	if !ps.Gated() {
		apimeta.RemoveStatusCondition(&ps.Status.Conditions, api.RolledOutCondition)
		return
	}
	status, reason, message := metav1.ConditionTrue, api.ReasonRolledOut, "all waves have the current version of every profile"
	var running, held string
	for _, r := range ps.Status.Rollouts {
		switch {
		case slices.ContainsFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == r.Profile && e.Removed }):
			// The version is no longer current, and is not rolled out further.
		case r.Held:
			held += "; " + r.Message
		case !r.Done:
			running += fmt.Sprintf("; profile %q %s is at wave %d: %s", r.Profile, r.Version, r.Wave, r.Message)
		}
	}
	switch {
	case held != "":
		status, reason, message = metav1.ConditionFalse, api.ReasonRolloutHeld, (held + running)[2:]
	case running != "":
		status, reason, message = metav1.ConditionFalse, api.ReasonRollingOut, running[2:]
	}
	apimeta.SetStatusCondition(&ps.Status.Conditions, metav1.Condition{
		Type: api.RolledOutCondition, Status: status, Reason: reason, ObservedGeneration: ps.Generation,
		Message: redact.Shorten(redact.Printable(message), redact.MaxCondition),
	})
}

// emitEvents emits events about the rollouts of a source.
func (r *Reconciler) emitEvents(before, after *api.ProfileSource, seen *observed) {
	for _, now := range after.Status.Rollouts {
		was := before.RolloutOf(now.Profile)
		r.emitFailures(was, now, seen)
		if was == nil {
			was = &api.RolloutStatus{Done: true}
			if now.From == nil {
				continue // it only records what all pools have
			}
		}
		for _, n := range eventsOf(*was, now) {
			r.event(after, n.kind, n.reason, "%s", n.text)
		}
	}
}

// rolloutEvent is an event about a rollout.
type rolloutEvent struct{ kind, reason, text string }

// eventsOf compares two states of a profile's rollout.
func eventsOf(was, now api.RolloutStatus) []rolloutEvent {
	normal, what := corev1.EventTypeNormal, fmt.Sprintf("profile %q %s", now.Profile, now.Version)
	another := was.Version != now.Version
	switch {
	case another && now.Wave < 0:
		return nil // it has not begun
	case another && now.Done && now.Reason == reasonRolledBack:
		return []rolloutEvent{{normal, api.EventRolledBack, fmt.Sprintf("profile %q: %s", now.Profile, now.Message)}}
	case another && now.Done:
		return []rolloutEvent{{normal, api.EventRolloutDone, what + " is given to all pools"}}
	case another && now.From != nil:
		return append([]rolloutEvent{{normal, api.EventRolloutStarted, fmt.Sprintf("%s replaces %s in waves; wave %d begins", what, now.From.Version, now.Wave)}}, holdEvents(now)...)
	case now.Done && !was.Done:
		return []rolloutEvent{{normal, api.EventRolloutDone, fmt.Sprintf("all waves have %s: %d of %d pools, %d new machines", what, now.Pools.Adopted, now.Pools.Total, now.Machines.Joined)}}
	}
	var out []rolloutEvent
	if was.Held && !now.Held {
		out = append(out, rolloutEvent{normal, api.EventRolloutResumed, what + " continues"})
	}
	if now.Wave > was.Wave {
		out = append(out, rolloutEvent{normal, api.EventRolloutAdvanced, fmt.Sprintf("%s: wave %d begins", what, now.Wave)})
	}
	if now.Held && (!was.Held || was.Wave != now.Wave) {
		out = append(out, holdEvents(now)...)
	}
	return out
}

func holdEvents(now api.RolloutStatus) []rolloutEvent {
	if !now.Held {
		return nil
	}
	return []rolloutEvent{{corev1.EventTypeWarning, api.EventRolloutHeld, now.Message}}
}

// heldMessage says why a rollout is held and what to do. It contains no times, so that it
// does not change in the next run.
func heldMessage(r api.RolloutStatus, failures []api.RolloutFailure) string {
	return fmt.Sprintf("profile %q %s is held at wave %d: %s. Push a better version, revert the commit, or continue with annotation %s: %q, or %q for this wave only",
		r.Profile, r.Version, r.Wave, listed(failures), api.AnnotationRelease, r.Version, fmt.Sprintf("%s@%d", r.Version, r.Wave))
}

func listed(failures []api.RolloutFailure) string {
	var parts []string
	for _, f := range failures[:min(len(failures), maxNamed)] {
		parts = append(parts, describe(f))
	}
	if n := len(failures) - maxNamed; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, "; ")
}

func describe(f api.RolloutFailure) string {
	switch f.Reason {
	case api.FailureDeleted:
		text := fmt.Sprintf("machine %s of pool %s was deleted before it joined", f.Machine, f.Pool)
		if f.Message != "" {
			text += ", " + f.Message
		}
		return text
	case api.FailureNotJoined:
		return fmt.Sprintf("machine %s of pool %s did not join within %s", f.Machine, f.Pool, bootLimit)
	}
	return fmt.Sprintf("pool %s cannot have it: see its events", f.Pool)
}

// named lists some of many names.
func named(keys []string, noun string) string {
	slices.Sort(keys)
	text := strings.Join(keys[:min(len(keys), maxNamed)], ", ")
	if n := len(keys) - maxNamed; n > 0 {
		text += fmt.Sprintf(" and %d more %ss", n, noun)
	}
	return text
}

// emitFailures emits events on a pool about its machines that do not join. The controller
// that renders reports versions that the pool cannot have.
func (r *Reconciler) emitFailures(was *api.RolloutStatus, now api.RolloutStatus, seen *observed) {
	for _, f := range now.Failures {
		known := was != nil && slices.ContainsFunc(was.Failures, func(had api.RolloutFailure) bool {
			return had.Pool == f.Pool && had.Machine == f.Machine && had.Reason == f.Reason
		})
		if md := seen.pools[f.Pool]; md != nil && !known && f.Machine != "" {
			r.event(md, corev1.EventTypeWarning, api.EventMachineFailed, "profile %q %s: %s", now.Profile, now.Version, describe(f))
		}
	}
}

func (r *Reconciler) event(obj client.Object, kind, reason, format string, args ...any) {
	recorder := r.Recorder
	if _, ok := obj.(*api.ProfileSource); ok {
		recorder = r.SourceRecorder
	}
	recorder.Eventf(obj, nil, kind, reason, "RollOut", "%s", redact.Shorten(redact.Printable(fmt.Sprintf(format, args...)), redact.MaxEvent))
}
