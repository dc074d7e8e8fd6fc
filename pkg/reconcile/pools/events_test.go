package pools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

func file(path, data string) osm.File {
	return osm.File{Path: path, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}}
}

func TestChanges(t *testing.T) {
	stage := func(files []osm.File, units ...osm.Unit) osm.OperatingSystemConfigSpec {
		return osm.OperatingSystemConfigSpec{ProvisioningConfig: osm.OSCConfig{Files: files, Units: units}}
	}
	modules := func(m osm.CloudInitModule) osm.OperatingSystemConfigSpec {
		return osm.OperatingSystemConfigSpec{BootstrapConfig: osm.OSCConfig{CloudInitModules: &m}}
	}
	a, b := file("/a", "one"), file("/b", "one")
	many := make([]osm.File, 200)
	for i := range many {
		many[i] = file(fmt.Sprintf("/etc/%03d", i), "x")
	}
	for name, c := range map[string]struct {
		before, after osm.OperatingSystemConfigSpec
		want          string
	}{
		"nothing":                  {stage([]osm.File{a}), stage([]osm.File{a}), "the files and units are the same"},
		"a file":                   {stage([]osm.File{a, b}), stage([]osm.File{a, file("/b", "two")}), "changed: provisioning /b"},
		"a file's permissions":     {stage([]osm.File{a}), stage([]osm.File{{Path: "/a", Permissions: 600, Content: a.Content}}), "changed: provisioning /a"},
		"new and gone":             {stage([]osm.File{a}), stage([]osm.File{b}), "changed: provisioning +/b, provisioning -/a"},
		"another order is nothing": {stage([]osm.File{a, b}), stage([]osm.File{b, a}), "the files and units are the same"},
		"a unit":                   {stage(nil, osm.Unit{Name: "x.service"}), stage(nil, osm.Unit{Name: "x.service", Enable: new(true)}), "changed: provisioning unit x.service"},
		"modules":                  {modules(osm.CloudInitModule{BootCMD: []string{"a"}, RunCMD: []string{"a"}}), modules(osm.CloudInitModule{BootCMD: []string{"b"}, RunCMD: []string{"a"}}), "changed: bootstrap module bootcmd"},
		"SSH keys": {
			osm.OperatingSystemConfigSpec{}, osm.OperatingSystemConfigSpec{BootstrapConfig: osm.OSCConfig{UserSSHKeys: []string{"k"}}},
			"changed: bootstrap +SSH keys",
		},
		// security.md 28: a path is text from a repository.
		"a path with an escape": {stage(nil), stage([]osm.File{file("/a\x1b[31m\u202eb", "")}), "changed: provisioning +/a[31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, describeChanges(c.before, c.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	text := describeChanges(stage(nil), stage(many))
	if len(text) > maxChanges+20 || !strings.HasSuffix(text, " more") || !strings.HasPrefix(text, "changed: provisioning +/etc/000, ") {
		t.Errorf("many changes are told as %q", text)
	}
	if strings.Count(text, "/etc/")+number(t, text) != len(many) {
		t.Errorf("of %d changes some are neither named nor counted: %q", len(many), text)
	}
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(text[strings.LastIndex(text, "and "):], "and %d more", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCause(t *testing.T) {
	base := render.Record{Profile: "osp-a", Version: "v1.0.0", ObjectDigest: "d", Commit: "c", SettingsDigest: "s", Pool: render.Pool{Name: "web"}}
	for want, change := range map[string]func(r *render.Record){
		metrics.Profile:  func(r *render.Record) { r.Version, r.Pool.Name, r.SettingsDigest = "v1.1.0", "x", "x" },
		metrics.Pool:     func(r *render.Record) { r.Pool.Name, r.SettingsDigest = "x", "x" },
		metrics.Settings: func(r *render.Record) { r.SettingsDigest = "x" },
	} {
		to := base
		change(&to)
		if got := rotationReason(base, to); got != want {
			t.Errorf("the cause is %s, want %s", got, want)
		}
	}
}
