package version

import (
	"slices"
	"strings"
	"testing"
)

func TestPin(t *testing.T) {
	there := []string{"v1.7.9", "v1.8.0", "v1.8.10", "v1.8.9", "v1.9.0", "v1.9.1-rc.1", "v2.0.0", "v2.0.0+b2", "v2.1.0-dirty.0badcafe"}
	for pin, want := range map[string]string{
		"v1.8.0":           "v1.8.0",
		"1.8.0":            "v1.8.0",
		" v1.8.0 ":         "v1.8.0",
		"~1.8":             "v1.8.10",
		"v1.8":             "v1.8.10",
		"1.x":              "v1.9.0",
		"~v1.9":            "v1.9.0",
		">=1.9.1-0 <2.0.0": "v1.9.1-rc.1",
		">=1.2.0, <1.8.0":  "v1.7.9",
		"*":                "v2.0.0+b2",
		"v2.0.0+b2":        "v2.0.0+b2",
		"v2.0.0+b3":        "", // a version is the one that is written, and no other of its precedence
		"v1.8.1":           "",
		"~3":               "",
	} {
		p, err := ParsePin(pin)
		if err != nil {
			t.Errorf("%q: %v", pin, err)
			continue
		}
		if got, ok := p.Best(there); got != want || ok != (want != "") {
			t.Errorf("%q stands for %q, want %q", pin, got, want)
		}
	}
	for _, pin := range []string{"", " ", "latest", "v1.8.0 or so", ">=", "~1.8\x1b", strings.Repeat("1", maxPinBytes+1)} {
		if _, err := ParsePin(pin); err == nil {
			t.Errorf("%q was taken", pin)
		}
	}
}

func TestNearestVersions(t *testing.T) {
	there := []string{"v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0", "v1.10.0", "v2.0.0-rc.1", "v1.2.0"}
	for pin, want := range map[string]string{
		"v1.3.5": "v1.10.0 v1.5.0 v1.4.0 v1.3.0 v1.2.0",
		"v1.2.1": "v1.5.0 v1.4.0 v1.3.0 v1.2.0 v1.1.0",
		"~9":     "v2.0.0-rc.1 v1.10.0 v1.5.0 v1.4.0 v1.3.0",
		"v0.1.0": "v1.4.0 v1.3.0 v1.2.0 v1.1.0 v1.0.0",
	} {
		p, err := ParsePin(pin)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Nearest(there), " "); got != want {
			t.Errorf("%s: got %s, want %s", pin, got, want)
		}
	}
	p, err := ParsePin("~1.8")
	if got := p.Nearest([]string{"v1.0.0"}); err != nil || !slices.Equal(got, []string{"v1.0.0"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got := p.Nearest(nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestSortVersionsOrdersByNumber(t *testing.T) {
	want := []string{"v2.0.0+b2", "v2.0.0+b1", "v2.0.0-rc.1", "v1.10.0", "v1.9.0", "v1.0.0", "nonsense"}
	for name, in := range map[string][]string{
		"ascending":  {"nonsense", "v1.0.0", "v1.9.0", "v1.10.0", "v2.0.0-rc.1", "v2.0.0+b1", "v2.0.0+b2"},
		"descending": {"v2.0.0+b2", "v2.0.0+b1", "v2.0.0-rc.1", "v1.10.0", "v1.9.0", "v1.0.0", "nonsense"},
		"repeated":   {"v1.9.0", "v1.10.0", "v1.0.0", "nonsense", "v1.9.0", "v2.0.0+b1", "v2.0.0-rc.1", "v2.0.0+b2", "v1.10.0"},
	} {
		if got := SortDescending(in); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
