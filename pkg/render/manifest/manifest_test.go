package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

var (
	digest = strings.Repeat("0a", 32)
	text   = "osm-gitops-manifest 1 0123456789ab\n" +
		"file " + digest + " 0755 root:root /etc/a b\n" +
		"file present 4600 root:core /etc/c\n" +
		"mutable /etc/m/*\n" +
		"unit - a.service\n" +
		"unit enabled b@x.timer\n"
	parsed = manifest.Manifest{
		Config: "0123456789ab",
		Files: []manifest.File{
			{Path: "/etc/a b", Digest: digest, Mode: 0o755, Owner: "root:root"},
			{Path: "/etc/c", Mode: 0o4600, Owner: "root:core"},
		},
		Mutable: []string{"/etc/m/*"},
		Units:   []manifest.Unit{{Name: "a.service", State: manifest.Any}, {Name: "b@x.timer", State: manifest.Enabled}},
	}
)

func TestParse(t *testing.T) {
	// In another order, with a comment, an empty line, and an earlier entry of a path and a unit.
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	shuffled := strings.Join([]string{
		lines[0], "# entries", "", "unit masked a.service", "file present 0600 root:root /etc/a b",
		lines[5], lines[4], lines[3], lines[2], lines[1],
	}, "\n")
	for name, text := range map[string]string{"as it is encoded": text, "in another order": shuffled} {
		got, err := manifest.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(parsed, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := parsed.Encode(); got != text {
		t.Errorf("encoded:\n%s", got)
	}
	if f, ok := parsed.FileAt("/etc/c"); !ok || f.Mode != 0o4600 {
		t.Errorf("found %v, %t", f, ok)
	}
	if _, ok := parsed.FileAt("/etc/b"); ok {
		t.Error("found a file that is not there")
	}
	for path, want := range map[string]bool{"/etc/m/x": true, "/etc/m/x/y": true, "/etc/m": false, "/etc/mx": false, "/etc/c": false} {
		if parsed.IsMutable(path) != want {
			t.Errorf("%s: mutable %t", path, !want)
		}
	}
}

func TestParseInvalid(t *testing.T) {
	file := "file " + digest + " 0644 root:root "
	for name, c := range map[string]struct{ line, want string }{
		"kind":             {"folder /etc", `line 2 of the manifest: it begins with "folder"`},
		"no path":          {"file present 0644 root:root", "a file needs"},
		"relative path":    {file + "etc/a", "invalid path"},
		"folder":           {file + "/etc/", "invalid path"},
		"parent folder":    {file + "/etc/../a", "invalid path"},
		"quote":            {file + `/etc/"`, "invalid path"},
		"backslash":        {file + `/etc/\n`, "invalid path"},
		"other characters": {file + "/etc/ü", "invalid path"},
		"long path":        {file + "/" + strings.Repeat("a", 256), "invalid path"},
		"short digest":     {"file 0a 0644 root:root /a", "invalid digest"},
		"upper case":       {"file " + strings.ToUpper(digest) + " 0644 root:root /a", "invalid digest"},
		"decimal mode":     {"file present 0849 root:root /a", "invalid mode"},
		"short mode":       {"file present 644 root:root /a", "invalid mode"},
		"large mode":       {"file present 10644 root:root /a", "invalid mode"},
		"no group":         {"file present 0644 root /a", "invalid owner"},
		"mutable":          {"mutable etc", "invalid path"},
		"state":            {"unit on a.service", "invalid state"},
		"no unit":          {"unit enabled", "invalid unit"},
		"not a unit":       {"unit enabled a", "invalid unit"},
		"pattern":          {"unit enabled *.service", "invalid unit"},
		"long":             {strings.Repeat("#", 1<<20), "it can have"},
	} {
		_, err := manifest.Parse([]byte("osm-gitops-manifest 1 0123456789ab\n" + c.line + "\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	for _, text := range []string{"", "# entries\n", "osm-gitops-manifest 2 0123456789ab\n", "osm-gitops-manifest 1 0123\n"} {
		if _, err := manifest.Parse([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// FuzzParse: what can be parsed is the same after it was encoded.
func FuzzParse(f *testing.F) {
	f.Add([]byte(text))
	f.Add([]byte("osm-gitops-manifest 1 0123456789ab\nunit - a.service\nunit masked a.service\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := manifest.Parse(text)
		if err != nil {
			return
		}
		again, err := manifest.Parse([]byte(m.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Error(diff)
		}
	})
}
