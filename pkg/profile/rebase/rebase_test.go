package rebase

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

func decodeBase(t *testing.T) profile.Document {
	t.Helper()
	docs, err := profile.Decode("profiles/base.yaml", []byte(profiletest.Base))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0]
}

func decodeOverlay(t *testing.T, text string) profile.Overlay {
	t.Helper()
	in, err := profile.DecodeFile("profiles/over.yaml", []byte(text))
	if err != nil || len(in.Overlays) != 1 {
		t.Fatalf("%d overlays: %v", len(in.Overlays), err)
	}
	return in.Overlays[0]
}

// newerBase is the base at v1.1.0, with changes.
func newerBase(t *testing.T, changes ...string) profile.Document {
	t.Helper()
	docs, err := profile.Decode("profiles/newer.yaml", []byte("# newer\n"+strings.NewReplacer(append(changes, "version: v1.0.0", "version: v1.1.0")...).Replace(profiletest.Base)))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0]
}

// A change by both the overlay and its base is a conflict that names both; a change by
// one of them, or the same change by both, is not.
func TestRebase(t *testing.T) {
	replaces := "  bootstrapConfig:\n    files:\n      replace:\n      - path: /opt/second\n        content: {inline: {data: mine}}\n"
	for name, c := range map[string]struct {
		spec    string
		changes []string
		want    []string // conflicts
		applies bool
	}{
		"nothing in common":               {replaces, []string{"echo bye", "echo farewell"}, nil, true},
		"both changed a file":             {replaces, []string{`{data: "2"}`, "{data: theirs}"}, []string{`profiles/over.yaml:12: spec.bootstrapConfig.files.replace[0].content.inline.data: replaces the content of file "/opt/second", which profile "osp-base" has changed from v1.0.0 (profiles/base.yaml:29) to v1.1.0 (profiles/newer.yaml:30): adopt the changes that you want, then set version: v1.1.0 under spec.from`}, true},
		"both changed it to the same":     {replaces, []string{`{data: "2"}`, "{data: mine}"}, nil, true},
		"the content and the permissions": {"  bootstrapConfig: {files: {replace: [{path: /opt/first, permissions: 700}]}}\n", []string{"            one", "            uno"}, nil, true},
		"the permissions both":            {"  bootstrapConfig: {files: {replace: [{path: /opt/first, permissions: 700}]}}\n", []string{"permissions: 755", "permissions: 750"}, []string{`the permissions of file "/opt/first"`}, true},
		"a template":                      {"  bootstrapConfig: {templates: {replace: {hello: a, bye: b}}}\n", []string{"echo hello", "echo hi", "echo bye", "echo farewell"}, []string{`template "bye"`, `template "hello"`}, true},
		"a template of a runtime":         {"  provisioningConfig: {supportedContainerRuntimes: [{name: containerd, templates: {replace: {install: dnf}}}]}\n", []string{"apt-get install", "apt install"}, []string{`spec.provisioningConfig.supportedContainerRuntimes[0].templates.replace[install]: replaces template "install"`}, true},
		"a unit's content":                {"  bootstrapConfig: {units: {replace: [{name: first.service, content: x}]}}\n", []string{"[Unit]", "[Service]"}, []string{`content of unit "first.service"`}, true},
		"a unit's other part":             {"  bootstrapConfig: {units: {replace: [{name: first.service, mask: true}]}}\n", []string{"[Unit]", "[Service]"}, nil, true},
		"a module":                        {"  bootstrapConfig: {modules: {replace: {runcmd: [x]}}}\n", []string{"systemctl restart", "systemctl start"}, []string{`module "runcmd"`}, true},
		"commands after those of a module": {
			"  bootstrapConfig: {modules: {append: {runcmd: [x]}}}\n", []string{"systemctl restart", "systemctl start"}, nil, true,
		},
		"a scalar":                        {"  osVersion: mine\n", []string{`"24.04"`, `"26.04"`}, []string{"replaces osVersion"}, true},
		"two, in the order of lines":      {replaces + "  osVersion: mine\n", []string{`{data: "2"}`, "{data: theirs}", `"24.04"`, `"26.04"`}, []string{`the content of file "/opt/second"`, "replaces osVersion"}, true},
		"what is removed is gone already": {"  bootstrapConfig: {files: {remove: [/opt/second]}}\n", []string{"/opt/second", "/opt/new"}, []string{`profiles/over.yaml:8: spec.bootstrapConfig.files.remove[0]: there is no file "/opt/second" in bootstrapConfig.files of the base, profile "osp-base" v1.1.0 (profiles/newer.yaml:21): remove it here, or name its replacement`}, false},
		"what is removed was changed":     {"  bootstrapConfig: {files: {remove: [/opt/second]}}\n", []string{`{data: "2"}`, "{data: theirs}"}, nil, true},
		"what is added is there now":      {"  bootstrapConfig: {files: {add: [{path: /opt/new, content: {inline: {data: x}}}]}}\n", []string{"/opt/second", "/opt/new"}, []string{`the base already has file "/opt/new", in profile "osp-base" v1.1.0 (profiles/newer.yaml:29)`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Compare(decodeOverlay(t, profiletest.Overlay+c.spec), decodeBase(t), newerBase(t, c.changes...))
			if err != nil {
				t.Fatal(err)
			}
			if (got.Now.Name != "") != c.applies || len(got.Conflicts) != len(c.want) {
				t.Fatalf("applies: %v, conflicts %v", got.Now.Name != "", got.Conflicts)
			}
			for i, p := range got.Conflicts {
				if !strings.Contains(p.Error(), c.want[i]) {
					t.Errorf("conflict\n%v\ndoes not say\n%s", p, c.want[i])
				}
			}
		})
	}
}

// An overlay whose base has a newer version is outdated, with the result on that version.
func TestMoved(t *testing.T) {
	repo := gittest.New(t)
	repo.Write("profiles/base.yaml", *profiletest.BaseAt("v1.0.0"))
	repo.Write("profiles/hello.yaml", *profiletest.OverlayAt("osp-hello", "v1.0.0", "osp-base", "v1.0.0", "mine"))
	repo.Write("profiles/clean.yaml", strings.ReplaceAll(profiletest.Overlay, "osp-over", "osp-clean"))
	repo.Write("profiles/builtin.yaml", *profiletest.OverlayAt("osp-still", "v1.0.0", "osp-builtin", "v1.0.0", "b"))
	first := repo.Commit()[:12]
	repo.Write("profiles/base.yaml", strings.Replace(*profiletest.BaseAt("v1.1.0"), "echo hello", "echo theirs", 1))
	repo.Commit()
	snap, err := source.Directory{Root: repo.Dir, Path: filepath.Join(repo.Dir, "profiles")}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ix := &catalog.Indexer{Builtin: profiletest.Builtins()}
	var got []string
	for _, f := range snap.Files {
		in, err := profile.DecodeFile(f.Path, f.Data)
		if err != nil {
			t.Fatal(err)
		}
		if len(in.Overlays) == 0 {
			continue
		}
		m, ok, err := CheckOutdated(t.Context(), ix, snap, in.Overlays[0])
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		got = append(got, m.Path+" "+m.Message())
		if m.Line != 7 || m.Newer != (api.ProfileOverlayBase{Profile: "osp-base", Version: "v1.1.0"}) {
			t.Errorf("line %d, newer %v", m.Line, m.Newer)
		}
	}
	if diff := cmp.Diff([]string{
		`profiles/clean.yaml the base, profile "osp-base", has v1.1.0; this overlay starts from v1.0.0 and would apply to it unchanged: osm-gitops rebase-overlay profiles/clean.yaml shows what changes`,
		`profiles/hello.yaml the base, profile "osp-base", has v1.1.0; this overlay starts from v1.0.0 and would conflict with it: line 8, spec.bootstrapConfig.templates.replace[hello]: replaces template "hello", which profile "osp-base" has changed from v1.0.0 (` + first + `:profiles/base.yaml:14) to v1.1.0 (profiles/base.yaml:14): adopt the changes that you want, then set version: v1.1.0 under spec.from`,
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The versions are edited in place, and nothing else changes.
func TestWithVersions(t *testing.T) {
	const file = `# ours
apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata: {name: osp-over}
spec:
  version: "v2.0.0" # ours, too
  from:
    profile: osp-base
    version:   'v1.0.0'   # é the base
---
# another
` + profiletest.Overlay + "# the end"
	other := strings.Replace(file, "name: osp-over}", "name: osp-other}", 1)
	o, err := profile.DecodeFile("f.yaml", []byte(other))
	if err != nil {
		t.Fatal(err)
	}
	onto := api.ProfileOverlayBase{Profile: "osp-base", Version: "v1.1.0"}
	got, err := WithVersions([]byte(other), o.Overlays[0], "v2.0.1", onto)
	want := strings.NewReplacer(`"v2.0.0"`, `"v2.0.1"`, "'v1.0.0'", "'v1.1.0'").Replace(other)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(got)))
	}
	got, err = WithVersions([]byte(other), o.Overlays[1], "v2.0.1", onto)
	want = strings.NewReplacer("  version: v2.0.0\n", "  version: v2.0.1\n", "version: v1.0.0}", "version: v1.1.0}").Replace(other)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(got)))
	}
	was, now := "v1:sha256:"+strings.Repeat("0", 64), "v1:sha256:"+strings.Repeat("1", 64)
	pinned := strings.Replace(profiletest.Overlay, "version: v1.0.0}", "version: v1.0.0, builtin: true, digest: "+was+"}", 1)
	got, err = WithVersions([]byte(pinned), decodeOverlay(t, pinned), "v2.0.1", api.ProfileOverlayBase{Profile: "osp-base", Version: "v1.1.0", Builtin: true, Digest: now})
	want = strings.NewReplacer("  version: v2.0.0\n", "  version: v2.0.1\n", "version: v1.0.0,", "version: v1.1.0,", was, now).Replace(pinned)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(got)))
	}
	shared := strings.NewReplacer("version: v2.0.0\n", "version: &v v1.0.0\n", "version: v1.0.0}", "version: *v}").Replace(profiletest.Overlay)
	if _, err := WithVersions([]byte(shared), decodeOverlay(t, shared), "v2.0.1", onto); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("one value for both: %v", err)
	}
}
