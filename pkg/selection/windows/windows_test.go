package windows

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func spec(schedule, duration, zone string) api.MaintenanceWindow {
	d, err := time.ParseDuration(duration)
	if err != nil {
		panic(err)
	}
	return api.MaintenanceWindow{Schedule: schedule, Duration: metav1.Duration{Duration: d}, TimeZone: zone}
}

func TestInvalidWindows(t *testing.T) {
	for _, c := range []struct {
		spec api.MaintenanceWindow
		says string // "" if it is valid
	}{
		{spec("0 22 * * 1-4", "6h", "Europe/Berlin"), ""},
		{spec("0 22 * * *", "24h", ""), ""}, // without a break
		{spec("0 0 * * 1", "168h", "UTC"), ""},
		{spec("0 0 29 2 *", "168h", "UTC"), ""},
		{spec("0 22 * * 1-4", "24h1m", "UTC"), "duration 24h1m0s overlaps the next start"},
		{spec("*/10 * * * *", "11m", "UTC"), "10m0s later"},
		{spec("0 23,1 * * 1,2", "2h1m", "UTC"), "2h0m0s later"},
		{spec("0 0 31 * *", "168h", "UTC"), ""},
		{spec("0 0 1,31 * *", "25h", "UTC"), "24h0m0s later"}, // 31 July and 1 August
		{spec("0 0 30 2 *", "1h", "UTC"), "never fires"},
		{spec("0 22 * *", "1h", "UTC"), "it is not minute"},
		{spec("0 0 22 * * *", "1h", "UTC"), "it is not minute"},
		{spec("60 22 * * *", "1h", "UTC"), "it is not minute"},
		{spec("@daily     ", "1h", "UTC"), "it is not minute"},
		{spec("@every 5h    ", "1h", "UTC"), "it is not minute"},
		{spec("TZ=UTC 0 22 * * *", "1h", "UTC"), "move it to timeZone"},
		{spec("TZ=", "1h", "UTC"), "move it to timeZone"},
		{spec("*/0 22 * * *", "1h", "UTC"), "it is not minute"},
		{spec("", "1h", "UTC"), "it is not minute"},
		{spec("0 22 * * *", "1h", "Europe/Atlantis"), `timeZone "Europe/Atlantis" is unknown`},
		{spec("0 22 * * *", "1h", "Local"), `timeZone "Local" is unknown`}, // the controller's
		{spec("0 22 * * *", "1h", "../../etc/passwd"), "is unknown"},
	} {
		_, err := Parse(c.spec)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: got %v, want %q", c.spec, err, c.says)
		}
	}
}

// A clock that is put forward skips 02:30, and one that is put back shows it twice.
func TestDaylightSaving(t *testing.T) {
	w, err := Parse(spec("30 2 * * *", "1h", "Europe/Berlin"))
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string]string{
		"2026-03-28T12:00:00Z": "2026-03-29T03:00:00+02:00",
		"2026-03-29T01:00:00Z": "2026-03-30T02:30:00+02:00",
		"2026-10-24T12:00:00Z": "2026-10-25T02:30:00+02:00",
		"2026-10-25T00:30:00Z": "2026-10-26T02:30:00+01:00",
	} {
		at, _ := time.Parse(time.RFC3339, after)
		if got := (Set{w}).Openings(at, 1)[0].Format(time.RFC3339); got != want {
			t.Errorf("after %s: opens %s, want %s", after, got, want)
		}
	}
}

// Of the last day of a leap year time.Time.ZoneBounds returns an end before it.
func TestLastDayOfALeapYear(t *testing.T) {
	for _, zone := range oracleZones {
		w, err := Parse(spec("30 13 * * *", "1h", zone))
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{2024, 2028, 2040} {
			if got := (Set{w}).Openings(time.Date(year, 12, 30, 14, 0, 0, 0, w.zone), 2); got[0].Format("01-02 15:04") != "12-31 13:30" || got[1].Format("01-02 15:04") != "01-01 13:30" {
				t.Errorf("%s in %d: opens %v", zone, year, got)
			}
		}
	}
}

func TestWindowsOfASource(t *testing.T) {
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{MaintenanceWindows: []api.MaintenanceWindow{
		spec("0 22 * * 1-4", "6h", "Europe/Berlin"), spec("0 0 30 2 *", "1h", "UTC"),
	}}}}
	ps.Spec.Rollout.MaintenanceWindows[1].Applies = []string{api.WindowReplace, api.WindowWaves}
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	replace, limited := For(ps, api.WindowReplace)
	if got := Describe(replace.At(noon).Opens); !limited || got != "Mon 22:00 Europe/Berlin (2026-03-02)" {
		t.Errorf("it opens %q", got)
	}
	// An invalid window never opens, also if it is the only one.
	invalid, limited := For(ps, api.WindowWaves)
	if state := invalid.At(noon); !limited || state != (State{}) || Describe(state.Opens) != "a valid maintenance window" {
		t.Errorf("the state is %+v", state)
	}
	if got := Problems(ps); len(got) != 1 || !strings.HasPrefix(got[0].Error(), "spec.rollout.maintenanceWindows[1]: ") {
		t.Errorf("problems are %v", got)
	}
	if _, limited := For(nil, api.WindowReplace); limited {
		t.Error("no source has windows")
	}
}
