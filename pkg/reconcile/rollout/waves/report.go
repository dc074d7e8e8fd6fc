package waves

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// SetCondition sets whether all pools have the current versions, and their machines. Without
// waves and maintenance windows there is no condition. invalid are the errors of windows;
// waiting says which pools wait for which window, "" for none.
func SetCondition(ps *api.ProfileSource, invalid []error, waiting string) {
	if !ps.HasWaves() && len(ps.Status.MaintenanceWindows) == 0 {
		apimeta.RemoveStatusCondition(&ps.Status.Conditions, api.RolledOutCondition)
		return
	}
	status := metav1.ConditionTrue
	reason := api.ReasonRolledOut
	message := "all waves have the current version of every profile"
	if !ps.HasWaves() {
		message = "no pool waits for a maintenance window"
	}
	var running, paused string
	for _, r := range ps.Status.Rollouts {
		switch {
		case slices.ContainsFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == r.Profile && e.Removed }):
			// The version is no longer current, and is not rolled out further.
		case r.Held:
			paused += "; " + r.Message
		case !r.Done:
			running += fmt.Sprintf("; profile %q %s is at wave %d: %s", r.Profile, r.Version, r.Wave, r.Message)
		}
	}
	if waiting != "" {
		running += "; " + waiting
	}
	closed := ""
	for _, err := range invalid {
		closed += fmt.Sprintf("; the window never opens: %s", err)
	}
	switch {
	case closed != "":
		status = metav1.ConditionFalse
		reason = api.ReasonWindowInvalid
		message = (closed + paused + running)[2:]
	case paused != "":
		status = metav1.ConditionFalse
		reason = api.ReasonRolloutHeld
		message = (paused + running)[2:]
	case running != "":
		status = metav1.ConditionFalse
		reason = api.ReasonRollingOut
		message = running[2:]
	}
	apimeta.SetStatusCondition(&ps.Status.Conditions, metav1.Condition{
		Type: api.RolledOutCondition, Status: status, Reason: reason, ObservedGeneration: ps.Generation,
		Message: redact.Shorten(redact.RemoveControlChars(message), redact.MaxCondition),
	})
}

// Event is an event about a rollout.
type Event struct{ Type, Reason, Message string }

// EventsBetween compares two states of a profile's rollout.
func EventsBetween(was, now api.RolloutStatus) []Event {
	normal, what := corev1.EventTypeNormal, fmt.Sprintf("profile %q %s", now.Profile, now.Version)
	another := was.Version != now.Version
	switch {
	case now.Wave < 0:
		return nil // it has not begun
	case another && now.Done && now.Reason == reasonRolledBack:
		return []Event{{normal, api.EventRolledBack, fmt.Sprintf("profile %q: %s", now.Profile, now.Message)}}
	case another && now.Done:
		return []Event{{normal, api.EventRolloutDone, what + " is given to all pools"}}
	case now.Done && !was.Done:
		return []Event{{normal, api.EventRolloutDone, fmt.Sprintf("all waves have %s: %d of %d pools, %d new machines", what, now.Pools.Adopted, now.Pools.Total, now.Machines.Joined)}}
	case (another || was.Wave < 0) && now.From != nil:
		return append([]Event{{normal, api.EventRolloutStarted, fmt.Sprintf("%s replaces %s in waves; wave %d begins", what, now.From.Version, now.Wave)}}, pausedEvents(now)...)
	}
	var out []Event
	if was.Held && !now.Held {
		out = append(out, Event{normal, api.EventRolloutResumed, what + " continues"})
	}
	if now.Wave > was.Wave {
		out = append(out, Event{normal, api.EventRolloutAdvanced, fmt.Sprintf("%s: wave %d begins", what, now.Wave)})
	}
	if now.Held && (!was.Held || was.Wave != now.Wave) {
		out = append(out, pausedEvents(now)...)
	}
	return out
}

func pausedEvents(now api.RolloutStatus) []Event {
	if !now.Held {
		return nil
	}
	return []Event{{corev1.EventTypeWarning, api.EventRolloutHeld, now.Message}}
}

// pausedMessage says why a rollout is paused and what to do. It contains no times, so that it
// does not change in the next run.
func pausedMessage(r api.RolloutStatus, failures []api.RolloutFailure) string {
	return fmt.Sprintf("profile %q %s is held at wave %d: %s. Push a better version, revert the commit, or continue with annotation %s: %q, or %q for this wave only",
		r.Profile, r.Version, r.Wave, listFailures(failures), api.AnnotationRelease, r.Version, fmt.Sprintf("%s@%d", r.Version, r.Wave))
}

func listFailures(failures []api.RolloutFailure) string {
	var parts []string
	for _, f := range failures[:min(len(failures), maxNamed)] {
		parts = append(parts, DescribeFailure(f))
	}
	if n := len(failures) - maxNamed; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, "; ")
}

func DescribeFailure(f api.RolloutFailure) string {
	if f.Cause != "" {
		cause := f.Cause
		f.Cause = ""
		return DescribeFailure(f) + ": " + cause
	}
	switch f.Reason {
	case api.FailureDeleted:
		text := fmt.Sprintf("machine %s of pool %s was deleted before it joined", f.Machine, f.Pool)
		if f.Message != "" {
			text += ", " + f.Message
		}
		return text
	case api.FailureBootFailing:
		return fmt.Sprintf("the boot of machine %s of pool %s fails", f.Machine, f.Pool)
	case api.FailureNotJoined:
		return fmt.Sprintf("machine %s of pool %s did not join within %s", f.Machine, f.Pool, BootLimit)
	}
	return fmt.Sprintf("pool %s cannot have it: see its events", f.Pool)
}

// JoinPools lists some of many pools.
func JoinPools(keys []string) string {
	slices.Sort(keys)
	text := strings.Join(keys[:min(len(keys), maxNamed)], ", ")
	if n := len(keys) - maxNamed; n > 0 {
		text += fmt.Sprintf(" and %d more pools", n)
	}
	return text
}
