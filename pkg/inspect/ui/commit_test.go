package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// What a commit introduced, wrote or made current again, and which pools have it.
func TestCommit(t *testing.T) {
	f := NewModel(noon, world())
	for name, c := range map[string]struct {
		id        string
		profiles  string
		rotations string
		born      string
	}{
		"the first one":          {first, "Brought osp-web v1.0.0", "shop/web-eu v1.0.0 after nothing; shop/web-us v1.0.0 after nothing", "eu-1 eu-4"},
		"a merge":                {second, "Brought osp-web v1.1.0 after v1.0.0", "shop/web-eu v1.1.0 after v1.0.0", "eu-2 eu-3 eu-5"},
		"what the merge brought": {written, "Written osp-web v1.1.0 after v1.0.0", "shop/web-eu v1.1.0 after v1.0.0", "eu-2 eu-3 eu-5"},
		"a revert":               {third, "Selected osp-web v1.0.0 after v1.1.0", "shop/web-eu v1.0.0 after v1.1.0", "eu-4"},
	} {
		t.Run(name, func(t *testing.T) {
			v, ok := ViewCommit(f, c.id, "", 1)
			if !ok {
				t.Fatal("nothing is known of it")
			}
			var profiles, rotations, born []string
			for _, p := range v.Profiles {
				profiles = append(profiles, strings.TrimSuffix(fmt.Sprintf("%s %s %s after %s", p.Role, p.Profile, p.Version, p.Before), " after "))
			}
			for _, r := range v.Rotations {
				before := r.Before
				if before == "" {
					before = "nothing"
				}
				rotations = append(rotations, fmt.Sprintf("%s %s after %s", r.Pool, r.Version, before))
			}
			for _, n := range v.Items {
				born = append(born, n.Name)
			}
			got := []string{strings.Join(profiles, "; "), strings.Join(rotations, "; "), strings.Join(born, " ")}
			if diff := cmp.Diff([]string{c.profiles, c.rotations, c.born}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := ViewCommit(f, strings.Repeat("f", 40), "", 1); ok {
		t.Error("there is a page of a commit that nobody knows")
	}
}

func TestResolve(t *testing.T) {
	o := world()
	o.Profiles = append(o.Profiles, profileMeta("osp-batch", "v1.0.0", "1a1a9999"+strings.Repeat("0", 32), "", "", day))
	f := NewModel(noon, o)
	for id, want := range map[string]string{first: first, second[:7]: second, "1a1": "", "1a1a": "", "1a1a1": first, "ffff": "", "": ""} {
		if got := f.Resolve(id); got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
}

// The page of a commit with a hundred pools compares the files of the requested one.
func TestRenderedPool(t *testing.T) {
	f := NewModel(noon, world())
	for pool, want := range map[string]string{"": "shop/web-eu", "shop/web-us": "shop/web-us", "shop/nothing": "shop/web-eu"} {
		v, _ := ViewCommit(f, first, pool, 1)
		if v.Rendered == nil || v.Rendered.Pool != want {
			t.Errorf("asked for %q it compares %+v", pool, v.Rendered)
		}
	}
}

func spec(version string, files ...osm.File) osm.OperatingSystemProfileSpec {
	return osm.OperatingSystemProfileSpec{
		OSName: osm.OperatingSystemUbuntu, Version: version,
		ProvisioningConfig: osm.OSPConfig{Files: files},
	}
}

func file(path, data string) osm.File {
	return osm.File{Path: path, Permissions: 644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}}
}

func TestDiff(t *testing.T) {
	before := profileDocuments(spec("v1.0.0", file("/etc/a", "one\ntwo\nthree\n"), file("/etc/gone", "x\n")))
	after := profileDocuments(spec("v1.1.0", file("/etc/a", "one\n2\nthree\n"), file("/etc/new", "y\n")))
	var got []string
	for _, d := range diffOf(before, after) {
		line := fmt.Sprintf("%s %s +%d -%d:", d.Change, d.Name, d.Added, d.Removed)
		for _, h := range d.Hunks {
			for _, l := range h.Lines {
				if l.Mark != " " {
					line += " " + l.Mark + l.Text
				}
			}
		}
		got = append(got, line)
	}
	want := []string{
		"Changed provisioning /etc/a (644) +1 -1: -two +2", "Added provisioning /etc/new (644) +1 -0: +y",
		"Changed settings +1 -1: -version: v1.0.0 +version: v1.1.0", "Removed provisioning /etc/gone (644) +0 -1: -x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Comparisons are bounded and contain no control characters (security.md 28).
func TestDiffOfHostileText(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	many := strings.Repeat("line\n", 3*maxDiffLines)
	d := diffOf(nil, []document{{"a", "\x1b[2J\u202e<b>\t" + long}, {"b", many}})
	if line := d[0].Hunks[0].Lines[0].Text; strings.ContainsAny(line, "\x1b\u202e\t") || len(line) > maxDiffWidth || !strings.HasPrefix(line, "[2J<b>") {
		t.Errorf("a line is %q", line)
	}
	if !d[1].Cut || d[1].Added > maxDiffLines {
		t.Errorf("of %d lines %d are shown, cut %v", 3*maxDiffLines, d[1].Added, d[1].Cut)
	}
	var files []document
	for i := range 2 * maxDiffFiles {
		files = append(files, document{fmt.Sprint(i), "x"})
	}
	if d := diffOf(nil, files); len(d) != maxDiffFiles || !d[maxDiffFiles-1].Cut {
		t.Errorf("%d files are shown", len(d))
	}
}

// Credentials that were committed in a profile by mistake are not shown (security.md 15).
func TestMask(t *testing.T) {
	const canary = "c4n4ryc4n4ry"
	for _, s := range []string{
		"password: " + canary, `"token": "` + canary + `"`, "API_KEY=" + canary, "export REGISTRY_PASSWD='" + canary + "'",
		"Authorization: Bearer " + canary, "activation-key = " + canary, "aws_secret_access_key = " + canary, "SECRET_KEY=" + canary,
		"secretAccessKey: " + canary, "passphrase: " + canary, "curl https://robot:" + canary + "@mirror.example.com/x", "http://:" + canary + "@proxy.example.com:3128",
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary + "\n-----END OPENSSH PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + canary,
	} {
		if got := mask(s); strings.Contains(got, canary) || !strings.Contains(got, redact.Masked) {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	for _, s := range []string{
		"password: {{ .Password }}", "curl -H \"Authorization: Bearer $TOKEN\"", "# the token is renewed before it ends",
		"tokenAttributes: true", "https://mirror.example.com:8443/x@y", "https://robot:{{ .Password }}@mirror.example.com", "git@example.com:a/b", "secret: \"\"", "--token-auth-file=/etc/x", "-----BEGIN CERTIFICATE-----\nabc",
	} {
		if got := mask(s); got != s {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
}
