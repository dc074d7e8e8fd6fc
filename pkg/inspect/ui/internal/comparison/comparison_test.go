package comparison

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

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
		if got := redact.Mask(s); strings.Contains(got, canary) || !strings.Contains(got, redact.Masked) {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	for _, s := range []string{
		"password: {{ .Password }}", "curl -H \"Authorization: Bearer $TOKEN\"", "# the token is renewed before it ends",
		"tokenAttributes: true", "https://mirror.example.com:8443/x@y", "https://robot:{{ .Password }}@mirror.example.com", "git@example.com:a/b", "secret: \"\"", "--token-auth-file=/etc/x", "-----BEGIN CERTIFICATE-----\nabc",
	} {
		if got := redact.Mask(s); got != s {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
}

func decodeFile(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// inputWith is the sample of pkg/render with one more file, and with placeholders for
// credentials.
func inputWith(t *testing.T, path, data string) render.Input {
	t.Helper()
	const sample = "../../../../render/testdata/sample/"
	var osp osm.OperatingSystemProfile
	decodeFile(t, sample+"profile.yaml", &osp)
	osp.Spec.ProvisioningConfig.Files = append(osp.Spec.ProvisioningConfig.Files, file(path, data))
	var md cluster.MachineDeployment
	decodeFile(t, sample+"machinedeployment.yaml", &md)
	var with struct {
		Settings render.Settings `json:"settings"`
		Cluster  render.Cluster  `json:"cluster"`
	}
	decodeFile(t, sample+"cluster.yaml", &with)
	in := render.Input{
		Profile:  render.Profile{Spec: osp.Spec, Object: "osp-sample-v1.2.3", Digest: profile.Digest(osp.Spec), Provenance: render.Provenance{Profile: osp.Name, Version: osp.Spec.Version}},
		Settings: with.Settings, Cluster: with.Cluster,
	}
	var err error
	if in.Pool, err = render.DecodePool(&md); err != nil {
		t.Fatal(err)
	}
	in, _ = in.ReplaceSecrets()
	return in
}

// The lines of a private key in a profile look like others, so a difference in its middle
// shows neither its first nor its last line. It is also hidden in the files of nodes
// (security.md 15).
func TestRenderedSecrets(t *testing.T) {
	key := func(changed string) string {
		var b strings.Builder
		b.WriteString("one: 1\n-----BEGIN PRIVATE KEY-----\n")
		for i := range 20 {
			fmt.Fprintf(&b, "c4n4ry%02d%s\n", i, strings.Repeat("A", 50))
		}
		b.WriteString(changed + "\n")
		for i := range 20 {
			fmt.Fprintf(&b, "c4n4ry%02d%s\n", 30+i, strings.Repeat("B", 50))
		}
		return b.String() + "-----END PRIVATE KEY-----\nurl: https://robot:" + changed + "@mirror.example.com/\n" + "last: " + changed[:1] + "\n"
	}
	from := stored{inputs: map[string]render.Input{"a": inputWith(t, "/etc/tls.key", key("1c4n4ry")), "b": inputWith(t, "/etc/tls.key", key("2c4n4ry"))}}
	files, note, err := Renderings(t.Context(), from, "shop/web", "a", "b")
	if err != nil || note != "" {
		t.Fatal(note, err)
	}
	b, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	if shown := string(b); strings.Contains(shown, "c4n4ry") || !strings.Contains(shown, "last: 2") || !strings.Contains(shown, "/etc/tls.key") {
		t.Errorf("it shows %s", shown)
	}
}

// stored are profiles by "namespace/name", and inputs by their digest.
type stored struct {
	specs  map[string]osm.OperatingSystemProfileSpec
	inputs map[string]render.Input
}

func (s stored) ReadGenerationInput(_ context.Context, _ types.NamespacedName, digest string) (render.Input, error) {
	return s.inputs[digest], nil
}

func (s stored) ReadProfileAndDigest(_ context.Context, object string) (*osm.OperatingSystemProfile, string, error) {
	return &osm.OperatingSystemProfile{Spec: s.specs[object]}, "", nil
}

// A version is compared with its predecessor, and the first one with nothing.
func TestCompareWithTheVersionBefore(t *testing.T) {
	from := stored{specs: map[string]osm.OperatingSystemProfileSpec{
		"ns/old": spec("v1.0.0", file("/etc/same", "same\n"), file("/etc/a", "one\n")),
		"ns/new": spec("v1.0.0", file("/etc/same", "same\n"), file("/etc/a", "two\n")),
	}}
	for before, want := range map[string]string{
		"ns/old": "Changed provisioning /etc/a (644)",
		"":       "Added provisioning /etc/a (644), Added provisioning /etc/same (644), Added settings",
	} {
		files, note, err := CompareProfiles(t.Context(), from, before, "ns/new")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Change+" "+f.Name)
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != want || note != "" {
			t.Errorf("compared with %q: %q (note %q), want %q", before, text, note, want)
		}
	}
}
