package overlay

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// Files result in profiles without a history, too: overlays on one another in any order,
// on bases elsewhere, and in cycles.
func TestAssemble(t *testing.T) {
	file := func(path, text string) profile.Contents {
		t.Helper()
		in, err := profile.DecodeFile(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	elsewhere := func(_ context.Context, o profile.Overlay) (profile.Document, error) {
		if o.Spec.From.Profile != "osp-far" {
			return profile.Document{}, &MissingBaseError{Base: o.Spec.From}
		}
		in := file("far.yaml", strings.ReplaceAll(profiletest.Base, "osp-base", "osp-far"))
		return in.Profiles[0], nil
	}
	files := []profile.Contents{
		file("top.yaml", *profiletest.OverlayAt("osp-top", "v1.0.0", "osp-over", "v2.0.0", "top")),
		file("both.yaml", profiletest.Base+"---\n"+profiletest.Overlay),
		file("far-over.yaml", *profiletest.OverlayAt("osp-far-over", "v1.0.0", "osp-far", "v1.0.0", "far")),
		file("one.yaml", *profiletest.OverlayAt("osp-one", "v1.0.0", "osp-two", "v1.0.0", "x")),
		file("two.yaml", *profiletest.OverlayAt("osp-two", "v1.0.0", "osp-one", "v1.0.0", "x")),
		file("none.yaml", *profiletest.OverlayAt("osp-none", "v1.0.0", "osp-nowhere", "v1.0.0", "x")),
		file("wrong.yaml", profiletest.Overlay[:strings.Index(profiletest.Overlay, "osp-over")]+"osp-wrong\nspec:\n  version: v1.0.0\n  from: {profile: osp-base, version: v1.0.0}\n  provisioningConfig: {files: {remove: [/x]}}\n"),
	}
	docs, wrong, err := Assemble(t.Context(), files, elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%s %s %s %s", d.Name, d.Spec.Version, d.Path, d.Spec.BootstrapConfig.Templates["hello"]))
	}
	if want := "osp-top v1.0.0 top.yaml top, osp-base v1.0.0 both.yaml echo hello, osp-over v2.0.0 both.yaml echo hello, osp-far-over v1.0.0 far-over.yaml far"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	wants := []string{
		`two.yaml:7: spec.from: forms a cycle: "osp-one" v1.0.0 (one.yaml:7) starts from this overlay`,
		`one.yaml:7: spec.from: the base, profile "osp-two" v1.0.0, is rejected: fix two.yaml first`,
		`none.yaml:7: spec.from: there is no profile "osp-nowhere" v1.0.0`,
		`wrong.yaml:8: spec.provisioningConfig.files.remove[0]: there is no file "/x" in `,
	}
	if len(wrong) != len(wants) {
		t.Fatalf("wrong: %v", wrong)
	}
	for i, p := range wrong {
		if !strings.Contains(p.Error(), wants[i]) {
			t.Errorf("got\n%v\nwant\n%s", p, wants[i])
		}
	}
}
