package profilesource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// overlayFile returns a file with an overlay whose patch changes the files of its base.
func overlayFile(name, version, from, fromVersion, patch string) string {
	return strings.NewReplacer("NAME", name, "MINE", version, "BASE", from, "ITS", fromVersion, "PATCH", patch).Replace(`apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata: {name: NAME}
spec:
  version: MINE
  from: {profile: BASE, version: ITS}
  bootstrapConfig:
    files:
      PATCH
`)
}

const addsMotd = `add: [{path: /etc/motd, content: {inline: {data: hello}}}]`

// A pushed overlay becomes an object like any other profile, and names its base. A newer
// base does not change it. An invalid overlay is reported with its line and does not block
// other profiles. A release with another built-in base removes nothing.
func TestOverlays(t *testing.T) {
	f := newFollowing(t, nil)
	shipped := func(version string) *source.Embedded {
		return &source.Embedded{
			FS:         fstest.MapFS{"osp-b.yaml": {Data: []byte(strings.ReplaceAll(profileFile(version, "built-in"), "osp-a", "osp-b"))}},
			Repository: "https://git.example.com/ours", Path: "shipped",
		}
	}
	f.r.Bases = shipped("v1.0.0")
	write := func(name, content string) {
		t.Helper()
		f.do(os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600))
	}
	write("over.yaml", overlayFile("osp-over", "v2.0.0", "osp-a", "v1.0.0", addsMotd))
	write("motd.yaml", overlayFile("osp-motd", "v3.0.0", "osp-b", "v1.0.0", addsMotd))
	first := f.commit("", "v1.0.0", "one")
	f.applied("main@sha1:" + first)
	for name, want := range map[string]map[string]string{
		"osp-over-v2.0.0": {
			api.AnnotationPath: "over.yaml", api.AnnotationCommit: first, api.AnnotationVersion: "v2.0.0", api.AnnotationAuthor: "Ada <ada@example.com>",
			api.AnnotationBase: "osp-a v1.0.0", api.AnnotationBaseCommit: first, api.AnnotationBasePath: "osp-a.yaml",
			api.AnnotationBaseDigest: profile.Digest(f.object("osp-a-v1.0.0").Spec),
		},
		"osp-motd-v3.0.0": {
			api.AnnotationPath: "motd.yaml", api.AnnotationCommit: first, api.AnnotationBase: "osp-b v1.0.0", api.AnnotationBaseCommit: "", api.AnnotationBasePath: "shipped/osp-b.yaml",
		},
		"osp-a-v1.0.0": {api.AnnotationBase: "", api.AnnotationBaseDigest: ""},
	} {
		osp := f.object(name)
		for key, value := range want {
			if osp.Annotations[key] != value {
				t.Errorf("%s: annotation %s is %q, want %q", name, key, osp.Annotations[key], value)
			}
		}
	}
	over := f.object("osp-over-v2.0.0")
	if files := over.Spec.BootstrapConfig.Files; len(files) != 2 || files[0].Content.Inline.Data != "one" || files[1].Path != "/etc/motd" || over.Annotations[api.AnnotationDigest] != profile.Digest(over.Spec) {
		t.Errorf("the overlay came to %+v", over)
	}

	second := f.commit("", "v1.1.0", "two")
	f.applied("main@sha1:" + second)
	if now := f.object("osp-over-v2.0.0"); now.ResourceVersion != over.ResourceVersion || f.entry("osp-over").Version != "v2.0.0" || f.entry("osp-a").Version != "v1.1.0" {
		t.Errorf("a newer base changed the overlay: %+v", f.ps.Status.Profiles)
	}

	write("over.yaml", overlayFile("osp-over", "v2.1.0", "osp-a", "v1.1.0", "remove: [/etc/b]"))
	f.commit("", "v1.2.0", "three")
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid,
		`over.yaml:9: spec.bootstrapConfig.files.remove[0]: there is no file "/etc/b" in bootstrapConfig.files of the base, profile "osp-a" v1.1.0 (`)
	if f.entry("osp-over").Version != "v2.0.0" || f.entry("osp-a").Version != "v1.2.0" {
		t.Errorf("with a broken overlay: %+v", f.ps.Status.Profiles)
	}

	write("over.yaml", overlayFile("osp-over", "v2.1.0", "osp-over", "v2.0.0", "replace: [{path: /etc/motd, permissions: 600}]"))
	f.applied("main@sha1:" + f.commit("", "v1.2.0", "three"))
	if got := f.object("osp-over-v2.1.0").Spec.BootstrapConfig.Files; len(got) != 2 || got[1].Permissions != 600 || got[1].Content.Inline.Data != "hello" {
		t.Errorf("an overlay of an overlay came to %+v", got)
	}

	// Another release.
	f.restart()
	f.r.Bases = shipped("v1.1.0")
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, `motd.yaml:6: spec.from: there is no profile "osp-b" v1.0.0, neither in the repository or its history nor built in; available: v1.1.0`)
	if e := f.entry("osp-motd"); e.Version != "v3.0.0" || e.Removed {
		t.Errorf("without its base the overlay is %+v", e)
	}
}

// entry returns the inventory entry of a profile.
func (f *following) entry(name string) api.ProfileEntry {
	f.t.Helper()
	for _, e := range f.ps.Status.Profiles {
		if e.Name == name {
			return e
		}
	}
	f.t.Fatalf("%s is not in the inventory: %+v", name, f.ps.Status.Profiles)
	return api.ProfileEntry{}
}
