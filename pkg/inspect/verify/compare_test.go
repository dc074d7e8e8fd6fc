package verify

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

func TestCompareValues(t *testing.T) {
	type file struct {
		Path string   `json:"path"`
		Data string   `json:"data,omitempty"`
		Tags []string `json:"tags"`
	}
	for name, c := range map[string]struct {
		want, have any
		found      *Difference
	}{
		"the same":                  {file{Path: "/a"}, file{Path: "/a"}, nil},
		"null and empty are equal":  {file{Tags: nil}, file{Tags: []string{}}, nil},
		"a value":                   {file{Path: "/a"}, file{Path: "/b"}, &Difference{Field: "x.path", Expected: "/a", Found: "/b"}},
		"a line":                    {file{Data: "a\nb\nc"}, file{Data: "a\nB\nc"}, &Difference{Field: "x.data", Line: 2, Expected: "b", Found: "B"}},
		"a line more":               {file{Data: "a"}, file{Data: "a\nb"}, &Difference{Field: "x.data", Line: 2, Expected: nothing, Found: "b"}},
		"an item more, by its name": {[]file{{Path: "/a"}}, []file{{Path: "/a"}, {Path: "/b"}}, &Difference{Field: `x[1] "/b"`, Expected: nothing, Found: "present"}},
		"another type":              {map[string]any{"a": 1}, map[string]any{"a": "1"}, &Difference{Field: "x.a", Expected: "float64 1", Found: "string 1"}},
		"the first by its name":     {map[string]any{"b": 1, "a": 1}, map[string]any{"b": 2, "a": 2}, &Difference{Field: "x.a", Expected: "1", Found: "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.found, compareValues("x", c.want, c.have)); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// No line of a private key is shown, whichever line differs; text after the key is shown
// (security.md 15).
func TestCompareTextWithKey(t *testing.T) {
	const key = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nMHcC\n%s\nAQEE\n-----END EC PRIVATE KEY-----\nport: %s\n"
	d := compareText("x", fmt.Sprintf(key, "c4n4ry1", "1"), fmt.Sprintf(key, "c4n4ry2", "1"))
	if d == nil || d.Line != 6 || strings.Contains(d.Expected+d.Found, "c4n4ry") {
		t.Errorf("got %+v", d)
	}
	if d := compareText("x", fmt.Sprintf(key, "c4n4ry", "1"), fmt.Sprintf(key, "c4n4ry", "2")); d == nil || d.Expected != "port: 1" || d.Found != "port: 2" {
		t.Errorf("got %+v", d)
	}
}

// A private key is hidden if it begins the text, if it lost its first line on one side, and
// in every form of armor (security.md 15).
func TestCompareTextHidesKeys(t *testing.T) {
	for name, c := range map[string]struct {
		want, have string
		line       int
	}{
		"at the very beginning":       {"-----BEGIN PRIVATE KEY-----\nc4n4ry1\n-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nc4n4ry2\n-----END PRIVATE KEY-----\n", 2},
		"expected without its begin":  {"c4n4ry\n-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nc4n4ry\n-----END PRIVATE KEY-----\n", 1},
		"found without its begin":     {"a\n-----BEGIN PRIVATE KEY-----\nc4n4ry\n-----END PRIVATE KEY-----\n", "a\nc4n4ry\n-----END PRIVATE KEY-----\n", 2},
		"cut off":                     {"-----BEGIN PRIVATE KEY-----\nc4n4ry", "-----BEGIN PRIVATE KEY-----", 2},
		"of OpenPGP":                  {"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nc4n4ry1\n", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nc4n4ry2\n", 3},
		"of OpenSSH":                  {"x:\n  -----BEGIN OPENSSH PRIVATE KEY-----\n  c4n4ry1\n", "x:\n  -----BEGIN OPENSSH PRIVATE KEY-----\n  c4n4ry2\n", 3},
		"the second of two":           {"-----BEGIN PRIVATE KEY-----\na\n-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nc4n4ry1\n", "-----BEGIN PRIVATE KEY-----\na\n-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nc4n4ry2\n", 5},
		"its last line is in another": {"-----BEGIN PRIVATE KEY-----\na\n-----END PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\na\nc4n4ry\n", 3},
	} {
		d := compareText("x", c.want, c.have)
		if d == nil || d.Line != c.line || strings.Contains(d.Expected+d.Found, "c4n4ry") {
			t.Errorf("%s: got %+v, want line %d and no line of the key", name, d, c.line)
		}
	}
	d := compareText("x", "-----BEGIN PRIVATE KEY-----\nc4n4ry", "-----BEGIN PRIVATE KEY-----")
	if d.Expected != hidden || d.Found != nothing {
		t.Errorf("a line that is not there is shown as %q, and one of a key as %q", d.Found, d.Expected)
	}
	d = compareText("x", "-----BEGIN CERTIFICATE-----\na\n", "-----BEGIN CERTIFICATE-----\nb\n")
	if d.Expected != "a" || d.Found != "b" {
		t.Errorf("of a certificate is shown %+v", d)
	}
}

// Differences contain no credentials and no control characters (security.md 14, 15, 28).
func TestDiffer(t *testing.T) {
	for name, c := range map[string]struct{ have, want string }{
		"a node's token":        {"Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlIn0.c2ln", "Bearer " + hidden},
		"a kubelet's token":     {"x abcdef.0123456789abcdef y", "x " + hidden + " y"},
		"a user in a URL":       {"https://user:canary@proxy.example.com", "https://" + hidden + "@proxy.example.com"},
		"a slash in a password": {"a https://user:p/c@nary@proxy.example.com b", "a https://" + hidden + "@proxy.example.com b"},
		"a password":            {`password: "canary"`, "password: " + hidden},
		"a private key":         {"a -----BEGIN RSA PRIVATE KEY-----\ncanary", "a " + hidden},
		"a longer name":         {"AWS_SECRET_ACCESS_KEY=canary", "AWS_SECRET_ACCESS_KEY=" + hidden},
		"an escape":             {"a\x1b[31mb", "a[31mb"},
		"a long text":           {strings.Repeat("a", 400), strings.Repeat("a", maxShown-len("…")) + "…"},
		"nothing":               {"", nothing},
		"what cannot be seen":   {"want\x00", hidden},
		"what is no secret":     {"echo the secrets of life", "echo the secrets of life"},
		"a digest stays whole":  {"v1:sha256:" + strings.Repeat("0a", 32), "v1:sha256:" + strings.Repeat("0a", 32)},
	} {
		if d := newDifference("x", 0, "want", c.have); d.Found != c.want {
			t.Errorf("%s: got %q, want %q", name, d.Found, c.want)
		}
	}
	if got := maskCredentials("a canary here", "canary", "ere"); got != "a "+hidden+" here" {
		t.Errorf("got %q", got)
	}
}

func TestLeaves(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte("zipped"))
	_ = w.Close()
	b64 := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		document string
		want     []entry
	}{
		"a cloud-config": {"#cloud-config\nruncmd: [a, b]\nwrite_files:\n- {path: /a, permissions: '0644', content: text}\n- {path: /b, encoding: b64, content: " + b64([]byte("hidden")) + "}\n- {path: /c, encoding: gz+b64, content: " + b64(zipped.Bytes()) + "}\n",
			[]entry{{"runcmd[0]", "a"}, {"runcmd[1]", "b"}, {`file "/a"`, "text"}, {`permissions of file "/a"`, "0644"},
				{`file "/b"`, "hidden"}, {`encoding of file "/b"`, "b64"}, {`file "/c"`, "zipped"}, {`encoding of file "/c"`, "gz+b64"}}},
		"two files of one path": {"#cloud-config\nwrite_files: [{path: /a, content: x}, {path: /a, content: y}]", []entry{{`file "/a"`, "x"}, {`file "/a" (number 2)`, "y"}}},
		"Ignition":              {`{"storage":{"files":[{"path":"/a","mode":420,"contents":{"source":"data:,a%20b"}}]}}`, []entry{{`file "/a"`, "a b"}, {`mode of file "/a"`, "420"}}},
		"what cannot be read":   {"#cloud-config\n- a: [", []entry{{"the document", "#cloud-config\n- a: ["}}},
		"nothing":               {"", []entry{{"the document", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, entriesOf([]byte(c.document)), cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	check := func(thing Thing, result Result) Check { return Check{Thing: thing, Result: result} }
	for name, c := range map[string]struct {
		engine string
		checks []Check
		want   string
	}{
		"all agrees":                    {"", []Check{check(ThingOSC, Agrees), check(ThingSecret, Skipped)}, "agrees"},
		"one differs":                   {"", []Check{check(ThingOSC, Differs), check(ThingSecret, Unproven)}, "OSC differs"},
		"twice the same":                {"", []Check{check(ThingSecret, Differs), check(ThingSecret, Differs)}, "Secret differs"},
		"several, in their order":       {"", []Check{check(ThingSecret, Differs), check(ThingRecord, Missing), check(ThingOSC, Differs)}, "record, OSC and Secret differ"},
		"one is missing":                {"", []Check{check(ThingRecord, Missing)}, "record is missing"},
		"settings are many":             {"", []Check{check(ThingSettings, Differs)}, "settings differ"},
		"settings are missing":          {"", []Check{check(ThingSettings, Missing)}, "settings are missing"},
		"something could not be read":   {"", []Check{check(ThingRepository, Unproven)}, "unproven"},
		"another engine":                {"v9", []Check{check(ThingOSC, Unproven)}, "another release is needed"},
		"another engine, and tampering": {"v9", []Check{check(ThingOSP, Differs)}, "OSP differs"},
	} {
		r := &Report{Engine: c.engine, Checks: c.checks}
		r.cleanSortAndSetVerdict()
		if r.Verdict != c.want {
			t.Errorf("%s: got %q, want %q", name, r.Verdict, c.want)
		}
		if agrees, other := r.Agrees(), r.NeedsOnlyOtherEngine(); agrees != (c.want == "agrees") || other != (c.want == "another release is needed") {
			t.Errorf("%s: agrees %t, other engine %t", name, agrees, other)
		}
	}
}

// FuzzLeaves: parsing arbitrary Secret data and searching it for tokens does not panic, and
// a document equals itself.
func FuzzLeaves(f *testing.F) {
	f.Add([]byte("#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: YQ==}]"), []byte("token={{x}}"))
	f.Add([]byte(`{"storage":{"files":[{"path":"/a","contents":{"source":"data:,a%zz"}}]}}`), []byte("{"))
	f.Add([]byte("a: &a [*a]"), []byte("? {1: 2}\n: 3"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		have, want := entriesOf(a), entriesOf(b)
		seen := map[string]bool{}
		for _, l := range have {
			if seen[l.where] {
				t.Errorf("two are called %q", l.where)
			}
			seen[l.where] = true
		}
		with := render.Cluster{APIServerToken: "eyJ.eyJ.x", BootstrapToken: "000000.0000000000000000"}
		if got := candidateTokens(want, have, with); len(got) == 0 || len(got) > maxCandidates {
			t.Errorf("%d candidates", len(got))
		}
		if len(have) > 0 && countCommonEntries(have, have) != len(have) {
			t.Error("it is not like itself")
		}
	})
}
