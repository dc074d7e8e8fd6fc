package phrase_test

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 profiles": phrase.Count(0, "profile"), "1 profile": phrase.Count(1, "profile"), "2 profiles": phrase.Count(2, "profile"),
		"1 branch": phrase.Count(1, "branch"), "2 branches": phrase.Count(2, "branch"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFirst(t *testing.T) {
	names := []string{"a", "b", "c"}
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		if got := phrase.First(names, most); got != want {
			t.Errorf("%d: got %q, want %q", most, got, want)
		}
	}
	if got := phrase.First(nil, 2); got != "" {
		t.Errorf("no names are %q", got)
	}
}
