package render_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TestInspector: the output is that of Render, except for the input's digest, and the origin of
// each line is a line of one of the templates.
func TestInspector(t *testing.T) {
	in := sampleInput(t)
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	inspector := render.NewInspector(in.Profile)
	got, err := inspector.Inspect(in)
	if err != nil {
		t.Fatal(err)
	}
	digest := render.ShortDigest(out.Record.Digests.Input)
	if len(got.Bootstrap.Files) == 0 || len(got.Provisioning.Files) == 0 {
		t.Fatalf("files: %d and %d", len(got.Bootstrap.Files), len(got.Provisioning.Files))
	}
	for i, f := range append(got.Bootstrap.Files, got.Provisioning.Files...) {
		want := out.OSC.BootstrapConfig.Files
		if i >= len(got.Bootstrap.Files) {
			want, i = out.OSC.ProvisioningConfig.Files, i-len(got.Bootstrap.Files)
		}
		content := strings.ReplaceAll(want[i].Content.Inline.Data, digest, "0123456789ab")
		if diff := cmp.Diff(content, f.Content); diff != "" || f.Path != want[i].Path {
			t.Errorf("%s (-Render +Inspect):\n%s", f.Path, diff)
		}
		if lines := strings.Count(strings.TrimSuffix(f.Content, "\n"), "\n") + 1; f.Content != "" && len(f.LineOrigins) < lines {
			t.Errorf("%s has %d lines and %d places", f.Path, lines, len(f.LineOrigins))
		}
		for n, p := range f.LineOrigins {
			if p.Line < 1 || !strings.HasPrefix(p.Field, "spec.") {
				t.Errorf("%s:%d comes from %+v", f.Path, n+1, p)
			}
		}
	}
	if got.Bootstrap.Size != in.Pool.UserDataSize(out.Bootstrap) {
		t.Errorf("the bootstrap document has %d bytes, want %d", got.Bootstrap.Size, in.Pool.UserDataSize(out.Bootstrap))
	}
	hits := 0
	for _, b := range inspector.Branches() {
		hits += b.Hits
	}
	if hits == 0 {
		t.Error("no branch was executed")
	}
}

// Inspect rejects the documents that Render rejects for their size.
func TestInspectorLimits(t *testing.T) {
	for size, want := range map[int]bool{1000: false, 50_000: true} {
		in := sized(t, "aws", size)
		_, err := render.NewEngine().Render(in)
		_, inspected := render.NewInspector(in.Profile).Inspect(in)
		var rendered, tooLarge *render.UserDataError
		if errors.As(err, &rendered) != want || errors.As(inspected, &tooLarge) != want || (inspected == nil) == want {
			t.Errorf("%d bytes: Render gives %v and Inspect %v, want an error: %t", size, err, inspected, want)
		}
	}
}

// The line follows the file only if it is a line of that file and known.
func TestErrorLine(t *testing.T) {
	in := sized(t, "aws", 1000)
	in.Profile.File = "profiles/x.yaml"
	in.Profile.Spec.BootstrapConfig.Files[2].Content.Inline.Data = "{{ .Missing }}"
	for name, c := range map[string]struct {
		lines func(string) int
		want  string
	}{
		"a file with lines":    {func(string) int { return 40 }, "profiles/x.yaml:40: bootstrapConfig"},
		"lines not known":      {func(string) int { return 0 }, "profiles/x.yaml: bootstrapConfig"},
		"a file without lines": {nil, "line 1"},
	} {
		in.Profile.Lines = c.lines
		if _, err := render.NewEngine().Render(in); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ":0:") {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}
