package windows

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// All of them: go test ./pkg/selection/windows -run Oracle -cases 10000 -timeout 1h
var cases = flag.Int("cases", 100, "number of random windows and instants to compare with the oracle")

// oracleWindow is a window as the generator made it. Nothing parses its text.
type oracleWindow struct {
	spec     api.MaintenanceWindow
	zone     *time.Location
	is       [5]func(int) bool // minute, hour, day of month, month, day of week
	star     [5]bool
	duration time.Duration
	gap      time.Duration
}

// fires reports whether a date and time of day matches.
func (w *oracleWindow) fires(t time.Time) bool {
	return w.is[0](t.Minute()) && w.is[1](t.Hour()) && w.onDay(t)
}

func (w *oracleWindow) onDay(t time.Time) bool {
	dom, dow := w.is[2](t.Day()), w.is[4](int(t.Weekday()))
	if w.star[2] || w.star[4] {
		return w.is[3](int(t.Month())) && dom && dow
	}
	return w.is[3](int(t.Month())) && (dom || dow)
}

// shown is what a clock shows at an instant, as a time in UTC.
func shown(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// starts reports whether the window opens at an instant, a whole minute.
func (w *oracleWindow) starts(at time.Time) bool {
	now := shown(at, w.zone)
	if w.fires(now) {
		for back := 1; ; back++ { // a repeated hour
			if back > 200 {
				return true
			}
			if shown(at.Add(-time.Duration(back)*time.Minute), w.zone).Equal(now) {
				break
			}
		}
	}
	for skipped := shown(at.Add(-time.Minute), w.zone).Add(time.Minute); skipped.Before(now); skipped = skipped.Add(time.Minute) {
		if w.fires(skipped) {
			return true
		}
	}
	return false
}

// shortest is the shortest time between two starts on a clock that shows every minute once.
func (w *oracleWindow) shortest() time.Duration {
	var minutes []int
	for minute := range 1440 {
		if w.is[0](minute%60) && w.is[1](minute/60) {
			minutes = append(minutes, minute)
		}
	}
	last, best := -1, 0
	for day, date := 0, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC); date.Year() < 2052; day, date = day+1, date.AddDate(0, 0, 1) {
		if !w.onDay(date) {
			continue
		}
		for _, minute := range minutes {
			at := 1440*day + minute
			if last >= 0 && (best == 0 || at-last < best) {
				best = at - last
			}
			last = at
		}
	}
	return time.Duration(best) * time.Minute
}

// oracleAt looks at every minute.
func oracleAt(all []*oracleWindow, now time.Time) State {
	var s State
	longest := time.Duration(0)
	for _, w := range all {
		longest = max(longest, w.duration)
	}
	for m := now.Add(-longest).Truncate(time.Minute); ; m = m.Add(time.Minute) {
		if m.After(now) && (!s.Open || !m.Before(s.Closes) && m.After(s.Closes)) {
			break
		}
		if m.Sub(now) > MaxOpen+longest {
			break
		}
		for _, w := range all {
			if w.starts(m) {
				end := m.Add(w.duration)
				switch {
				case !m.After(now) && end.After(now):
					s.Open = true
					s.Closes = later(s.Closes, end)
				case m.After(now) && s.Open && !m.After(s.Closes):
					s.Closes = later(s.Closes, end)
				}
			}
		}
	}
	if s.Open {
		if s.Closes.Sub(now) > MaxOpen {
			s.Closes = time.Time{}
		}
		return s
	}
	for m := now.Truncate(time.Minute).Add(time.Minute); s.Opens.IsZero(); m = m.Add(time.Minute) {
		if slices.ContainsFunc(all, func(w *oracleWindow) bool { return w.starts(m) }) {
			s.Opens = m
		}
	}
	return s
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

var oracleZones = strings.Fields(`UTC Europe/Berlin Europe/London Europe/Dublin Europe/Lisbon America/New_York America/Sao_Paulo
	America/St_Johns America/Santiago America/Havana America/Asuncion America/Caracas America/Nuuk Australia/Lord_Howe Australia/Sydney
	Australia/Eucla Antarctica/Troll Africa/Casablanca Africa/Cairo Africa/Johannesburg Asia/Gaza Asia/Tehran Asia/Kathmandu Asia/Kolkata
	Asia/Beirut Asia/Almaty Asia/Jerusalem Asia/Tokyo Pacific/Apia Pacific/Chatham Pacific/Kiritimati Pacific/Niue Pacific/Norfolk Pacific/Easter`)

// randomField returns the text of a field and which values match.
func randomField(r *rand.Rand, low, high int, names []string) (text string, is func(int) bool, star bool) {
	name := func(v int) string {
		if names != nil && r.IntN(2) == 0 {
			return names[v-low]
		}
		return fmt.Sprint(v)
	}
	value := func() int { return low + r.IntN(high-low+1) }
	switch r.IntN(10) {
	case 0, 1, 2:
		return "*", func(int) bool { return true }, true
	case 3:
		step := 2 + r.IntN(max(1, (high-low)/2))
		return fmt.Sprintf("*/%d", step), func(v int) bool { return (v-low)%step == 0 }, false
	case 4, 5:
		a, b := value(), value()
		a, b = min(a, b), max(a, b)
		return name(a) + "-" + name(b), func(v int) bool { return a <= v && v <= b }, false
	case 6:
		a, step := value(), 1+r.IntN(high-low)
		return fmt.Sprintf("%d/%d", a, step), func(v int) bool { return v >= a && (v-a)%step == 0 }, false
	}
	var values []int
	var parts []string
	for range 1 + r.IntN(3) {
		v := value()
		values, parts = append(values, v), append(parts, name(v))
	}
	return strings.Join(parts, ","), func(v int) bool { return slices.Contains(values, v) }, false
}

func randomWindow(r *rand.Rand) *oracleWindow {
	w := &oracleWindow{}
	var fields [5]string
	for i, bounds := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		names := [5][]string{3: strings.Fields("jan Feb MAR apr may jun jul aug sep oct nov dec"), 4: strings.Fields("sun mon Tue WED thu fri sat")}[i]
		fields[i], w.is[i], w.star[i] = randomField(r, bounds[0], bounds[1], names)
		plain := i == 0 && r.IntN(4) > 0 || i == 1 && r.IntN(3) > 0
		switch {
		case plain: // one start in an hour, in the hours in which clocks change
			v := []int{0, 15, 30, 45}[r.IntN(4)]
			if i == 1 {
				v = r.IntN(5)
			}
			fields[i], w.is[i], w.star[i] = fmt.Sprint(v), func(x int) bool { return x == v }, false
		case i == 3 && r.IntN(4) > 0, i == 2 && r.IntN(2) > 0:
			fields[i], w.is[i], w.star[i] = "*", func(int) bool { return true }, true
		}
	}
	w.spec.Schedule, w.spec.TimeZone = strings.Join(fields[:], " "), oracleZones[r.IntN(len(oracleZones))]
	w.zone, _ = time.LoadLocation(w.spec.TimeZone)
	w.gap = w.shortest()
	gap := w.gap
	most := 168 * 60
	if r.IntN(20) > 0 { // mostly valid
		most = min(most, int(gap/time.Minute))
	}
	w.duration = time.Duration(max(5, 5+r.IntN(max(1, most-4)))) * time.Minute
	if r.IntN(8) == 0 { // without a break
		w.duration = max(5*time.Minute, min(gap, 168*time.Hour))
	}
	w.spec.Duration = metav1.Duration{Duration: w.duration}
	return w
}

// randomInstant returns one between 2024 and 2040, every other one near a change of a clock.
func randomInstant(r *rand.Rand, w *oracleWindow) time.Time {
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	at := from.Add(time.Duration(r.Int64N(int64(time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC).Sub(from)))))
	if _, change := at.In(w.zone).ZoneBounds(); !change.IsZero() && change.Year() <= 2040 && r.IntN(2) == 0 {
		at = change.Add(time.Duration(r.Int64N(int64(8*time.Hour))) - 4*time.Hour)
	}
	if r.IntN(3) == 0 {
		at = at.Truncate(time.Minute)
	}
	return at
}

func TestOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(27, uint64(*cases)))
	open, refused := 0, 0
	for i := 0; i < *cases; {
		var all []*oracleWindow
		var set Set
		for range 1 + r.IntN(3)*r.IntN(2) {
			w := randomWindow(r)
			gap := w.gap
			parsed, err := Parse(w.spec)
			if invalid := gap == 0 || w.duration > gap; invalid != (err != nil) {
				t.Fatalf("%+v: the shortest gap is %s, got %v", w.spec, gap, err)
			}
			if err != nil {
				refused++
				continue
			}
			all, set = append(all, w), append(set, parsed)
		}
		if len(all) == 0 {
			continue
		}
		i++
		now := randomInstant(r, all[0])
		got, want := set.At(now), oracleAt(all, now)
		if got.Open != want.Open || !got.Opens.Equal(want.Opens) || !got.Closes.Equal(want.Closes) || !got.Edge().Equal(later(want.Opens, want.Closes)) {
			for _, w := range all {
				t.Logf("%q %s %s", w.spec.Schedule, w.spec.TimeZone, w.duration)
			}
			t.Fatalf("at %s: got %+v, want %+v", now, got, want)
		}
		if want.Open {
			open++
		}
	}
	t.Logf("%d cases, %d of them open; %d windows refused", *cases, open, refused)
	if open < *cases/20 || open > *cases*19/20 {
		t.Errorf("%d of %d are open: the cases say little", open, *cases)
	}
}
