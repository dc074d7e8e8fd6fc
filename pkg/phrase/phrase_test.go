package phrase_test

import (
	"strings"
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

func TestDidYouMean(t *testing.T) {
	long := strings.Repeat("x", 250)
	known := []string{"KubeVersion", "KubeReserved", "le", "lt", "mode", long}
	for name, want := range map[string]string{
		"KubeletVersion": `: did you mean "KubeVersion"?`, "kubeversion": `: did you mean "KubeVersion"?`,
		"KubeReserxyz": `: did you mean "KubeReserved"?`, // three edits are a quarter of its letters
		"ubeReserxd":   "",
		"lx":           `: did you mean "le"?`, // the first of equals
		"Kubernetes":   "",
		"\U0001f600\U0001f600\U0001f600\U0001f600": "", // letters are counted, not bytes
		long:       `: did you mean "` + long + `"?`,
		long[1:]:   `: did you mean "` + long + `"?`,
		long + "x": "",
	} {
		if got := phrase.DidYouMean(name, known); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := phrase.DidYouMean(long, []string{strings.Repeat("x", 501)}); got != "" {
		t.Errorf("compared with 501 bytes: %q", got)
	}
}
