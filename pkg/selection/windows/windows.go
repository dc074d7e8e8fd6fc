// Package windows evaluates maintenance windows: a pure function of schedules and an
// instant, without a client and without a clock. Start with Parse and Set.At.
package windows

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones, also if the operating system has none

	"github.com/robfig/cron/v3"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const (
	day = 24 * time.Hour
	// furthestAhead exceeds the largest difference between a zone's clock and UTC.
	furthestAhead = 15 * time.Hour
	// MaxOpen limits the search for the end of windows that follow each other without a break.
	MaxOpen = 31 * day
	// calendar is the period after which dates fall on the same days of the week.
	calendar = 28
)

// Window is a valid maintenance window.
type Window struct {
	schedule *cron.SpecSchedule // evaluated on times of day as if they were in UTC
	duration time.Duration
	zone     *time.Location
}

// Parse parses a window. The error names the field and what to do.
func Parse(spec api.MaintenanceWindow) (Window, error) {
	w := Window{duration: spec.Duration.Duration}
	name := cmp.Or(spec.TimeZone, "UTC")
	var err error
	if w.zone, err = time.LoadLocation(name); err != nil || name == "Local" {
		return w, fmt.Errorf("timeZone %q is unknown: name one of the IANA database, such as Europe/Berlin", name)
	}
	if w.schedule, err = parseSchedule(spec.Schedule); err != nil {
		return w, fmt.Errorf("schedule %q: %w", spec.Schedule, err)
	}
	if gap := w.shortestGap(); gap == 0 {
		return w, fmt.Errorf("schedule %q never fires: name a date that exists", spec.Schedule)
	} else if w.duration > gap {
		return w, fmt.Errorf("duration %s overlaps the next start of schedule %q, %s later: shorten it, or name fewer starts", w.duration, spec.Schedule, gap)
	}
	return w, nil
}

func parseSchedule(text string) (*cron.SpecSchedule, error) {
	if strings.Contains(text, "=") {
		return nil, errors.New("it names a time zone: move it to timeZone")
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	s, ok := parsed.(*cron.SpecSchedule) // the only type without cron.Descriptor
	if !ok {
		return nil, fmt.Errorf("it is not minute, hour, day of month, month and day of week: %w", err)
	}
	s.Location = time.UTC
	return s, nil
}

// shortestGap returns the shortest time between two starts on a clock without daylight
// saving, or a shorter one that the duration does not exceed; 0 without a start.
func (w Window) shortestGap() time.Duration {
	const longest = 365 * day
	var first, last, within time.Duration = -1, 0, longest
	for minute := range 24 * 60 {
		if w.schedule.Hour&(1<<(minute/60)) == 0 || w.schedule.Minute&(1<<(minute%60)) == 0 {
			continue
		}
		at := time.Duration(minute) * time.Minute
		if first < 0 {
			first = at
		} else {
			within = min(within, at-last)
		}
		last = at
	}
	days := *w.schedule
	days.Hour, days.Minute = 1, 1
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	was := days.Next(start.Add(-time.Second))
	if was.IsZero() {
		return 0
	}
	if daily := min(within, day-last+first); w.duration <= daily {
		return daily
	}
	between := longest
	for end := start.AddDate(calendar, 0, 0); between > day && was.Before(end); {
		next := days.Next(was)
		between, was = min(between, next.Sub(was)), next
	}
	return min(within, between-last+first)
}

// next returns the first start after an instant, zero if there is none within five years.
func (w Window) next(after time.Time) time.Time {
	local := after.In(w.zone)
	wallClock := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
	for {
		if wallClock = w.schedule.Next(wallClock); wallClock.IsZero() {
			return wallClock
		}
		// A repeated hour has starts that have been already.
		if at := w.firstInstant(wallClock); at.After(after) {
			return at
		}
	}
}

// firstInstant returns the first instant at which a clock in the zone shows a time of day or
// a later one: the end of the gap for one that daylight saving skips, and the first of two
// that it repeats.
func (w Window) firstInstant(wallClock time.Time) time.Time {
	from := wallClock.Add(-furthestAhead).In(w.zone)
	for {
		_, offset := from.Zone()
		_, end := from.ZoneBounds()
		if !end.IsZero() && !end.After(from) {
			// On 31 December of a leap year time has an end of the period before that day.
			end = from.Add(time.Minute)
		}
		at := wallClock.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || at.Before(end) {
			if at.Before(from) {
				at = from
			}
			return at.In(w.zone)
		}
		from = end
	}
}

// Set are windows for one use.
type Set []Window

// State is the state of windows at an instant.
type State struct {
	Open bool
	// Opens is the next start of a window that is closed, in its zone; zero if there is none.
	// While a window is open it is zero.
	Opens time.Time
	// Closes is the end of the open window, or of those that overlap or follow it without a
	// break; zero if that is not within 31 days.
	Closes time.Time
}

// Edge is when the state changes, zero for never.
func (s State) Edge() time.Time { return cmp.Or(s.Closes, s.Opens) }

// At returns the state at an instant.
func (s Set) At(now time.Time) State {
	var state State
	for until := s.lastEndOfOpen(now); !until.IsZero(); until = s.lastEndOfOpen(until) {
		if state.Open, state.Closes = true, until; until.Sub(now) > MaxOpen {
			state.Closes = time.Time{}
			break
		}
	}
	if !state.Open {
		state.Opens = s.next(now)
	}
	return state
}

// lastEndOfOpen returns the latest end of the windows that are open, zero for none.
func (s Set) lastEndOfOpen(now time.Time) time.Time {
	var end time.Time
	for _, w := range s {
		for start := w.next(now.Add(-w.duration)); !start.IsZero() && !start.After(now); start = w.next(start) {
			if at := start.Add(w.duration); at.After(end) {
				end = at
			}
		}
	}
	return end
}

// next returns the first start after an instant.
func (s Set) next(after time.Time) time.Time {
	var first time.Time
	for _, w := range s {
		if at := w.next(after); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Openings returns the next starts after an instant, at most count.
func (s Set) Openings(after time.Time, count int) []time.Time {
	var out []time.Time
	for at := s.next(after); !at.IsZero() && len(out) < count; at = s.next(at) {
		out = append(out, at)
	}
	return out
}

// Parsed are the maintenance windows of a ProfileSource.
type Parsed struct {
	// ByUse has the valid windows for each use that a window names, such as api.WindowReplace.
	// What none names is always allowed.
	ByUse map[string]Set
	// Problems are the errors of invalid windows, which never open, each with its field.
	Problems []error
}

// ParseAll parses the windows of a ProfileSource.
func ParseAll(ps *api.ProfileSource) Parsed {
	out := Parsed{ByUse: map[string]Set{}}
	for i, spec := range Of(ps) {
		var valid Set
		if w, err := Parse(spec); err != nil {
			out.Problems = append(out.Problems, fmt.Errorf("spec.rollout.maintenanceWindows[%d]: %w", i, err))
		} else {
			valid = Set{w}
		}
		for _, use := range []string{api.WindowReplace, api.WindowWaves} {
			if spec.IsFor(use) {
				out.ByUse[use] = append(out.ByUse[use], valid...)
			}
		}
	}
	return out
}

// Of returns the configured windows of a ProfileSource, which can be nil.
func Of(ps *api.ProfileSource) []api.MaintenanceWindow {
	if ps == nil || ps.Spec.Rollout == nil {
		return nil
	}
	return ps.Spec.Rollout.MaintenanceWindows
}

// Describe formats an opening in the zone of its window: "Mon 22:00 Europe/Berlin
// (2026-03-02)". It does not depend on the present, so that it changes only with the opening.
func Describe(at time.Time) string {
	if at.IsZero() {
		return "a valid maintenance window"
	}
	return at.Format("Mon 15:04 ") + at.Location().String() + at.Format(" (2006-01-02)")
}

// Summarize formats the configuration of a window: "0 22 * * 1-4 Europe/Berlin for 6h".
func Summarize(spec api.MaintenanceWindow) string {
	length := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(spec.Duration.Duration.String())
	return fmt.Sprintf("%s %s for %s", spec.Schedule, cmp.Or(spec.TimeZone, "UTC"), length)
}

// SummarizeFor returns the configured windows of a ProfileSource for a use, and which of them
// never open.
func SummarizeFor(ps *api.ProfileSource, use string) []string {
	var out []string
	for _, spec := range Of(ps) {
		if !spec.IsFor(use) {
			continue
		}
		text := Summarize(spec)
		if _, err := Parse(spec); err != nil {
			text += " (invalid, never opens)"
		}
		out = append(out, text)
	}
	return out
}
