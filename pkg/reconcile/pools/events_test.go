package pools

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
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
		"a unit":                   {stage(nil, osm.Unit{Name: "x.service"}), stage(nil, osm.Unit{Name: "x.service", Enable: ptr(true)}), "changed: provisioning unit x.service"},
		"modules":                  {modules(osm.CloudInitModule{BootCMD: []string{"a"}, RunCMD: []string{"a"}}), modules(osm.CloudInitModule{BootCMD: []string{"b"}, RunCMD: []string{"a"}}), "changed: bootstrap module bootcmd"},
		"SSH keys": {
			osm.OperatingSystemConfigSpec{}, osm.OperatingSystemConfigSpec{BootstrapConfig: osm.OSCConfig{UserSSHKeys: []string{"k"}}},
			"changed: bootstrap +SSH keys",
		},
		// security.md 28: a path is text from a repository.
		"a path with an escape": {stage(nil), stage([]osm.File{file("/a\x1b[31m\u202eb", "")}), "changed: provisioning +/a[31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, changes(c.before, c.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	text := changes(stage(nil), stage(many))
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
		if got := cause(base, to); got != want {
			t.Errorf("the cause is %s, want %s", got, want)
		}
	}
}

// What is put back is named with what was wrong; a rotation, a renewal and a new pool
// put nothing back.
func TestRestored(t *testing.T) {
	secret := func(name, data, digestOf string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
				api.AnnotationDataDigest: dataDigest([]byte(digestOf)), api.AnnotationInputDigest: "v1:sha256:in",
			}},
			Data: map[string][]byte{api.UserDataKey: []byte(dataDigest([]byte(data)))}, // as the cache has it
		}
	}
	good := objects{osc: &osm.OperatingSystemConfig{}, kubeconfig: secret("k", "k", "k"), provisioning: secret("p", "p", "p"), bootstrap: secret("b", "b", "b")}
	next := secretPlan{write: secret("b", "b", "b")}
	osc := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	without := func(change func(o *objects)) objects {
		o := good
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		have objects
		plan plan
		want string
	}{
		"nothing":            {good, plan{}, ""},
		"a renewed document": {good, plan{bootstrap: next, kubeconfig: good.kubeconfig}, ""},
		"a missing document": {without(func(o *objects) { o.bootstrap = nil }), plan{bootstrap: next}, "Secret b, which was missing"},
		"an edited document": {without(func(o *objects) { o.bootstrap = secret("b", "evil", "b") }), plan{bootstrap: next}, "Secret b, whose key cloud-config was edited"},
		"a missing kubeconfig": {
			without(func(o *objects) { o.kubeconfig = nil }), plan{kubeconfig: good.kubeconfig}, "Secret k, which was missing",
		},
		"a missing configuration": {
			without(func(o *objects) { o.osc = nil }),
			plan{osc: osc, serving: render.Record{Digests: osm.ConfigDigests{Input: "v1:sha256:in"}}}, "OperatingSystemConfig c, which was missing",
		},
		"a rotation": {good, plan{osc: osc, bootstrap: next}, ""},
		"a new pool": {objects{}, plan{osc: osc, bootstrap: next, kubeconfig: good.kubeconfig}, ""},
		"another configuration where one was missing": {
			without(func(o *objects) { o.osc = nil }),
			plan{osc: osc, bootstrap: next, serving: render.Record{Digests: osm.ConfigDigests{Input: "v1:sha256:other"}}}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.plan.was = pastOf(c.have)
			if got := strings.Join(c.plan.restored(), "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
