package revision

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// ValidRefName and git accept the same names.
func TestValidName(t *testing.T) {
	for _, name := range []string{
		"refs/heads/main", "refs/heads/a/b", "refs/heads/ä", "refs/heads/a.b", "refs/heads/@", "refs/heads/a@b", "refs/heads/-x", "refs/pull/1/head",
		"refs/heads/../../config", "refs/heads/a..b", "refs/heads/.a", "refs/heads/a/.b", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a.",
		"refs/heads//a", "refs/heads/a/", "refs/heads/a b", "refs/heads/a~b", "refs/heads/a^b", "refs/heads/a:b", "refs/heads/a?b", "refs/heads/a*b",
		"refs/heads/a[b", `refs/heads/a\b`, "refs/heads/a@{b", "refs/heads/a\x7fb", "refs/heads/a\tb", "refs/heads/{}", "refs/heads/a..", "refs/x",
	} {
		cmd := exec.CommandContext(t.Context(), "git", "check-ref-format", name)
		if want, got := cmd.Run() == nil, ValidRefName(name); got != want {
			t.Errorf("%q is valid: %t, git says %t", name, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	id := strings.Repeat("1a", 20)
	for text, want := range map[string]string{
		"main@sha1:" + id: "main", "a@b@sha1:" + id: "a@b", "refs/pull/1/head@sha1:" + id: "refs/pull/1/head", "sha1:" + id: "",
	} {
		if name, c := Split(text); name != want || string(c) != id {
			t.Errorf("%q is %q at %q", text, name, c)
		}
	}
	for _, none := range []string{"", "sha256:" + id + id[:24], "main@sha1:" + id[1:], "builtin@sha256:" + id, "main"} {
		if name, c := Split(none); name != "" || c != "" {
			t.Errorf("%q is %q at %q", none, name, c)
		}
	}
}

// If tags have the same precedence, the name that sorts last is used, in any order in which a
// server lists them.
func TestTagsWithOnePrecedence(t *testing.T) {
	for want, tags := range map[string][]string{
		"v1.0.0":       {"1.0.0", "v1.0.0"},
		"v1.0.0+b":     {"v1.0.0+a", "v1.0.0+b", "1.0.0+z"},
		"1.0.1":        {"v1.0.0", "1.0.1", "v1.0.0+z"},
		"v1.0.10":      {"v1.0.9", "v1.0.10", "v1"},
		"v1.0.0-rc.10": {"v1.0.0-rc.9", "v1.0.0-rc.10", "v1.0.0-beta"},
	} {
		refs := packp.NewAdvRefs()
		for i, tag := range tags {
			refs.References["refs/tags/"+tag] = plumbing.NewHash(fmt.Sprintf("%040d", i+1))
		}
		wanted, err := Selector{SemVer: ">=0.0.0-0"}.Check()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // the order of a map differs each time
			if got, err := wanted.highest(refs); err != nil || got != want {
				t.Fatalf("of %q it is %s, %v", tags, got, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"HEAD", "main~1", "v1.0.0^{}", "@^2~3", "a@{1}", "^", "~", "HEAD^{/x}", "refs/heads/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := Parse(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, spec.base) && !strings.HasPrefix(text, "@") {
			t.Errorf("the base of %q is %q", text, spec.base)
		}
		if slices.ContainsFunc(spec.steps, func(s step) bool { return s.nth < 1 || s.times < 0 || s.times > maxRevisionSteps }) {
			t.Errorf("%q has steps %v", text, spec.steps)
		}
	})
}
