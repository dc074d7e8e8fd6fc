package drift

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func text(rest string) string {
	return `{"v":1,"config":"0123456789ab","time":"2026-03-01T11:55:00Z",` + rest + `}`
}

func differences(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"path":"/etc/%02d","reason":"Mode"}`, i))
	}
	return `"state":"Differs","differences":[` + strings.Join(out, ",") + `]`
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		want    []api.MatchDifference
		others  int32
		invalid string
	}{
		"a node that matches": {text: text(`"state":"Matches"`)},
		"differences are sorted, and digests are of contents": {
			text: text(`"state":"Differs","differences":[{"path":"unit:b.service","reason":"Masked","found":"0123456789ab"},{"path":"/etc/a","reason":"Content","found":"0123456789ab","version":"v9.9.9","commit":"x"},{"path":"/etc/a","reason":"Owner"}],"others":3`),
			want: []api.MatchDifference{{Path: "/etc/a", Reason: "Content", Found: "0123456789ab"}, {Path: "/etc/a", Reason: "Owner"}, {Path: "unit:b.service", Reason: "Masked"}}, others: 3,
		},
		"what no manifest has is counted": {
			text: text(`"state":"Differs","differences":[{"path":"/etc/\u001b[31m","reason":"Mode"},{"path":"etc","reason":"Mode"},{"path":"/etc/../b","reason":"Mode"},{"path":"/a","reason":"Rewritten"},{"path":"unit:../x","reason":"Masked"},{"path":"/a","reason":"Disabled"},{"path":"/<b>","reason":"Content","found":"zz"}]`),
			want: []api.MatchDifference{{Path: "/<b>", Reason: "Content"}}, others: 6,
		},
		"the same again counts once":       {text: text(`"state":"Differs","differences":[{"path":"/a","reason":"Mode"},{"path":"/a","reason":"Mode"}]`), want: []api.MatchDifference{{Path: "/a", Reason: "Mode"}}},
		"a missing unit":                   {text: text(`"state":"Differs","differences":[{"path":"unit:a.timer","reason":"Missing"}]`), want: []api.MatchDifference{{Path: "unit:a.timer", Reason: "Missing"}}},
		"a negative number":                {text: text(`"state":"Differs","others":-5,"differences":[{"path":"/a","reason":"Mode"}]`), want: []api.MatchDifference{{Path: "/a", Reason: "Mode"}}},
		"a large number":                   {text: text(`"state":"Differs","others":9000000000`), others: maxOthers},
		"not JSON":                         {text: "<script>", invalid: "not JSON"},
		"two values":                       {text: text(`"state":"Matches"`) + "{}", invalid: "not JSON"},
		"another form":                     {text: `{"v":1,"differences":"x"}`, invalid: "not JSON"},
		"a later version":                  {text: `{"v":2}`, invalid: "version 2"},
		"too long":                         {text: text(`"state":"Matches","x":"` + strings.Repeat("x", api.MaxMatchBytes) + `"`), invalid: "longer than 2048"},
		"no configuration":                 {text: `{"v":1,"config":"0123456789AB","state":"Matches","time":"2026-03-01T11:55:00Z"}`, invalid: "no configuration"},
		"no time":                          {text: `{"v":1,"config":"0123456789ab","state":"Matches"}`, invalid: "no time"},
		"a time that is far in the future": {text: `{"v":1,"config":"0123456789ab","state":"Matches","time":"2026-03-03T11:55:00Z"}`, invalid: "in the future"},
		"an unknown state":                 {text: text(`"state":"Fine"`), invalid: "contradict"},
		"a difference of a node that says it matches": {text: text(`"state":"Matches","others":1`), invalid: "contradict"},
		"a state without differences":                 {text: text(`"state":"Differs"`), invalid: "contradict"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.text, now)
			if c.invalid != "" {
				if err == nil || !strings.Contains(err.Error(), c.invalid) {
					t.Fatalf("got %+v, error %v, want %q", got, err, c.invalid)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Report{Config: "0123456789ab", Time: now.Add(-5 * time.Minute), Differences: c.want, Others: c.others}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	got, err := Parse(text(differences(25)), now)
	if err != nil || len(got.Differences) != maxDifferences || got.Others != 5 {
		t.Errorf("of 25 differences there are %d and %d others, error %v", len(got.Differences), got.Others, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{text(`"state":"Matches"`), text(differences(25)), text(`"state":"Differs","others":1`), "{", `{"v":1e400}`, text(`"state":"Differs","differences":[{"path":"/\u202e","reason":"Mode"},{"path":"unit:a.service","reason":"Masked"}]`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s, now)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) || len(err.Error()) > 256 {
				t.Errorf("the error %q quotes the node", err)
			}
			return
		}
		if len(r.Differences) > maxDifferences || r.Others < 0 || r.Others > maxOthers+api.MaxMatchBytes {
			t.Errorf("%d differences, %d others", len(r.Differences), r.Others)
		}
		for _, d := range r.Differences {
			if !isPossible(d) || len(d.Path) > 320 || len(d.Found) > foundDigits || strings.ContainsFunc(d.Path, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("impossible difference %+v", d)
			}
		}
		m := StatusFromReport(r, now)
		if !IsKnown(m, r) {
			t.Errorf("the status of %+v is not known: %+v", r, m)
		}
		if c := Condition(m, nil); c.Reason == "" || len(c.Message) > 2048 {
			t.Errorf("the condition is %+v", c)
		}
	})
}

func hexDigits(c string) string { return strings.Repeat(c, 64) }

func sample() *manifest.Manifest {
	m, err := manifest.Parse([]byte(manifest.Manifest{
		Config: "0123456789ab",
		Files:  []manifest.File{{Path: "/etc/a", Digest: hexDigits("a"), Mode: 0o644, Owner: "root:root"}, {Path: "/etc/b", Digest: hexDigits("b"), Mode: 0o600, Owner: "root:root"}},
		Units:  []manifest.Unit{{Name: "kubelet.service", State: manifest.Enabled}},
	}.Encode()))
	if err != nil {
		panic(err)
	}
	return &m
}

// What a manifest does not have is only counted (security.md 47).
func TestConclusion(t *testing.T) {
	versions := []Version{{Version: "v1.1.0", Commit: "c11", Manifest: &manifest.Manifest{Files: []manifest.File{{Path: "/etc/a", Digest: hexDigits("1")}}}}, {Version: "v1.0.0", Manifest: &manifest.Manifest{Files: []manifest.File{{Path: "/etc/a", Digest: hexDigits("1")}, {Path: "/etc/b", Digest: hexDigits("2")}}}}}
	for name, c := range map[string]struct {
		differences []api.MatchDifference
		reason      string
		message     string
		others      int32
	}{
		"nothing":                      {nil, api.ReasonUnchanged, "has the files", 0},
		"an edited file":               {[]api.MatchDifference{{Path: "/etc/a", Reason: "Content", Found: "333333333333"}}, api.ReasonEdited, "/etc/a: other content", 0},
		"a disabled unit":              {[]api.MatchDifference{{Path: "unit:kubelet.service", Reason: "Disabled"}}, api.ReasonDisabled, "kubelet.service: disabled", 0},
		"a masked and an unknown unit": {[]api.MatchDifference{{Path: "unit:kubelet.service", Reason: "Masked"}, {Path: "unit:other.service", Reason: "Masked"}}, api.ReasonEdited, "kubelet.service: masked; 1 more", 1},
		"another version":              {[]api.MatchDifference{{Path: "/etc/a", Reason: "Content", Found: "111111111111"}, {Path: "/etc/b", Reason: "Content", Found: "222222222222"}}, api.ReasonOtherVersion, "/etc/a: other content, that of version v1.1.0, commit c11; /etc/b: other content, that of version v1.0.0", 0},
		"another version and an edit":  {[]api.MatchDifference{{Path: "/etc/a", Reason: "Content", Found: "111111111111"}, {Path: "/etc/a", Reason: "Mode"}}, api.ReasonEdited, "v1.1.0", 0},
		"a drop-in of a unit":          {[]api.MatchDifference{{Path: "/run/systemd/system/kubelet.service.d/x.conf", Reason: "DropIn"}}, api.ReasonEdited, "a drop-in", 0},
		"a drop-in of another unit":    {[]api.MatchDifference{{Path: "/etc/systemd/system/x.service.d/x.conf", Reason: "DropIn"}}, api.ReasonEdited, "1 more", 1},
		"a path that it does not have": {[]api.MatchDifference{{Path: "/etc/c", Reason: "Mode"}}, api.ReasonEdited, "1 more", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Config: "0123456789ab", Time: now, Differences: c.differences}.RestrictedTo(sample())
			r.Differences = FindVersions(r.Differences, versions)
			m := StatusFromReport(r, now)
			got := Condition(m, nil)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) || m.Others != c.others {
				t.Errorf("got %+v of %+v", got, m)
			}
			if want := map[bool]metav1.ConditionStatus{true: "True", false: "False"}[c.differences == nil]; got.Status != want {
				t.Errorf("the status is %s", got.Status)
			}
			if !IsKnown(m, r) || IsKnown(nil, r) {
				t.Error("a status is not recognized")
			}
		})
	}
	other := Report{Config: "ba9876543210", Differences: []api.MatchDifference{{Path: "/etc/a", Reason: "Mode"}}, Others: 1}.OfOtherConfiguration()
	if other.Others != 2 || len(other.Differences) != 1 || other.Differences[0].Path != manifest.Path {
		t.Errorf("of another configuration: %+v", other)
	}
}

func TestWithoutReport(t *testing.T) {
	_, invalid := Parse("<b>", now)
	for state, want := range map[api.MatchState]string{api.MatchStateNotReported: "False NotReported", api.MatchStateNotSupported: "Unknown NotSupported"} {
		c := Condition(WithoutReport(state, now), nil)
		if got := string(c.Status) + " " + c.Reason; got != want || c.Message == "" {
			t.Errorf("got %s: %s", got, c.Message)
		}
	}
	if c := Condition(WithoutReport(api.MatchStateNotReported, now), invalid); !strings.Contains(c.Message, "not JSON") {
		t.Errorf("the reason is missing: %s", c.Message)
	}
	if d := Deadline(now).Sub(now); d != 24*time.Hour+30*time.Minute {
		t.Errorf("the deadline is %s", d)
	}
}
