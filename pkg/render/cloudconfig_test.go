package render

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

func encode(t testing.TB, c userdata.CloudConfig) string {
	t.Helper()
	b, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documentOf is the document of a stage of a pool of an operating system.
func documentOf(stage string, pool Pool, system osm.OperatingSystem, config *osm.OSCConfig) userdata.CloudConfig {
	pool.OperatingSystem = system
	return Input{Pool: pool}.cloudInit(stage, config)
}

func parseYAML(t testing.TB, doc string) map[string]any {
	t.Helper()
	if !strings.HasPrefix(doc, "#cloud-config\n") {
		t.Fatalf("the first line of %q is wrong", doc)
	}
	m := map[string]any{}
	if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	return m
}

// The smallest document of operating-system-manager, and the keys that depend on the provider.
func TestCloudConfigWrapper(t *testing.T) {
	const ssh = "ssh_pwauth: false\n"
	upgrade := OperatingSystemSpec{DistUpgradeOnBoot: true}
	machine := func(name string) string {
		return "write_files:\n  - path: /etc/machine-name\n    permissions: '0600'\n    content: " + name + "\n"
	}
	tests := map[string]struct {
		stage string
		pool  Pool
		want  string
	}{
		"bootstrap, with an upgrade": {stageBootstrap, Pool{CloudProvider: "azure", OperatingSystemSpec: upgrade},
			"hostname: <MACHINE_NAME>\npackage_upgrade: true\npackage_reboot_if_required: true\n" + ssh + machine("<MACHINE_NAME>")},
		"provisioning":                           {stageProvisioning, Pool{CloudProvider: "azure"}, ssh},
		"provisioning, with an upgrade":          {stageProvisioning, Pool{CloudProvider: "azure", OperatingSystemSpec: upgrade}, "package_upgrade: true\npackage_reboot_if_required: true\n" + ssh},
		"AWS names its machines":                 {stageBootstrap, Pool{CloudProvider: "aws"}, ssh},
		"edge machines are called like the pool": {stageBootstrap, Pool{CloudProvider: "edge", Name: "no"}, "hostname: 'no'\n" + ssh + machine("'no'")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := encode(t, documentOf(test.stage, test.pool, "ubuntu", &osm.OSCConfig{}))
			if diff := cmp.Diff("#cloud-config\n"+test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Strings stay strings for parsers of YAML 1.1 and 1.2, regardless of their content.
// security.md 20
func TestScalarsStayStrings(t *testing.T) {
	odd := []string{
		"yes", "No", "on", "OFF", "y", "true", "~", "null", "Null", "", " ", "a ", " a", "0755", "0o755", "0x1f", "1_000", "1e3", "12:30", "12:30:45", "1.5", ".5", "-1", "+1",
		"2001-01-01", "2001-12-14t21:59:43.10-05:00", "<<", "=", "!x", "&x", "*x", "?", "-", "- a", ": a", "a: b", "a #b", "#b", "%x", "@x", "`x", "|", ">", "[a]", "{a}", ",", "'", "\"",
		"it's", "a\"b", "a\\b", "a\tb", "\ta", "a\n", "\na", "a\n\n", "a\n \nb", "a\n\t\nb", "a\r\nb", "\r", "a\x00b", "a\x1bb", "\u0085", "\u2028", "\ufeffa", "ü", "😀", "EOF\n{{ .X }}", "<MACHINE_NAME>", "a <MACHINE_NAME>\nb",
		"---", "...", "--- a", "\n---\n", "inf", ".inf", ".NaN", "0b1", "a:", "k: |", "  x\n y\n", strings.Repeat("long ", 100), strings.Repeat("x", 500) + "\n" + strings.Repeat("y ", 300),
	}
	for _, s := range odd {
		config := &osm.OSCConfig{
			Files: []osm.File{
				{Path: s, Permissions: 644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: s}}},
				{Path: "/b", Permissions: 1755, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: s, Encoding: "b64"}}},
			},
			CloudInitModules: &osm.CloudInitModule{
				BootCMD: []string{s}, RunCMD: []string{s, s}, YumRepoDir: s,
				RHSubscription: map[string]string{"password": s, s: s}, YumRepos: map[string]map[string]string{s: {"name": s, s: s}},
			},
		}
		doc := encode(t, documentOf(stageProvisioning, Pool{}, "ubuntu", config))
		got := parseYAML(t, doc)
		want := map[string]any{
			"ssh_pwauth": false,
			"write_files": []any{
				map[string]any{"path": s, "permissions": "0644", "content": s},
				map[string]any{"path": "/b", "permissions": "1755", "encoding": "b64", "content": base64.StdEncoding.EncodeToString([]byte(s))},
			},
			"bootcmd": []any{s}, "runcmd": []any{s, s},
			"rh_subscription": map[string]any{"password": s, s: s},
			"yum_repos":       map[string]any{s: map[string]any{"name": s, s: s}},
		}
		if s != "" {
			want["yum_repo_dir"] = s
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q does not survive (-want +got):\n%s\n%s", s, diff, doc)
		}
		if strings.Contains(s, userdata.MachineName) && strings.Count(doc, userdata.MachineName) < 8 {
			t.Errorf("%q: the machine's name is not literally in\n%s", s, doc)
		}
		for line := range strings.SplitSeq(doc, "\n") {
			if line != "" && strings.Trim(line, " \t") == "" {
				t.Errorf("%q: machine-controller would empty a line of\n%s", s, doc)
			}
		}
	}
}

// The two keys that are booleans in cloud-init's schema, and nothing else.
func TestTypedModules(t *testing.T) {
	got := parseYAML(t, encode(t, documentOf(stageProvisioning, Pool{}, "rhel", &osm.OSCConfig{CloudInitModules: &osm.CloudInitModule{
		RHSubscription: map[string]string{"auto-attach": "false", "username": "true", "password": ""},
		YumRepos:       map[string]map[string]string{"a": {"enabled": "1", "gpgcheck": "1"}, "b": {"enabled": "No"}, "c": {"enabled": "maybe"}, "d": {}},
	}})))
	want := map[string]any{
		"ssh_pwauth":      false,
		"rh_subscription": map[string]any{"auto-attach": false, "username": "true", "password": ""},
		"yum_repos": map[string]any{"a": map[string]any{"enabled": true, "gpgcheck": "1"}, "b": map[string]any{"enabled": false},
			"c": map[string]any{"enabled": "maybe"}, "d": map[string]any{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSSHKeys(t *testing.T) {
	config := &osm.OSCConfig{UserSSHKeys: []string{" a b ", "c", "", "a b", "\n", "d 'x'", "c"}}
	got := parseYAML(t, encode(t, documentOf(stageProvisioning, Pool{}, "ubuntu", config)))
	if diff := cmp.Diff([]any{"a b", "c", "d 'x'"}, got["ssh_authorized_keys"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Units are files outside Flatcar, and the coreos key there.
func TestUnits(t *testing.T) {
	yes, content, escaped := true, "[Service]\nExecStart=/a\n", "[Mount]\n"
	config := &osm.OSCConfig{
		Units: []osm.Unit{
			{Name: "a.service", Enable: &yes, Content: &content, DropIns: []osm.DropIn{{Name: "10-x.conf", Content: "[Service]\n"}}},
			{Name: "masked.service", Mask: &yes, Enable: &yes, Content: &content},
			{Name: `mnt-\x2d.mount`, Enable: &yes, Content: &escaped},
			{Name: "quiet.timer"},
		},
		CloudInitModules: &osm.CloudInitModule{RunCMD: []string{"first"}},
	}
	pool := &Pool{CloudProvider: "aws"}
	got := parseYAML(t, encode(t, documentOf(stageBootstrap, *pool, "ubuntu", config)))
	var files []string
	for _, f := range got["write_files"].([]any) {
		f := f.(map[string]any)
		files = append(files, f["path"].(string)+" "+f["permissions"].(string)+" "+f["content"].(string))
	}
	want := []string{
		"/etc/systemd/system/a.service 0644 " + content,
		"/etc/systemd/system/a.service.d/10-x.conf 0644 [Service]\n",
		"/etc/systemd/system/multi-user.target.d/10-a.service.conf 0644 [Unit]\nWants=a.service\n",
		"/etc/systemd/system/masked.service 0644 ",
		`/etc/systemd/system/mnt-\x2d.mount 0644 ` + escaped,
		`/etc/systemd/system/multi-user.target.d/10-mnt-\x2d.mount.conf 0644 [Unit]` + "\n" + `Wants=mnt-\x2d.mount` + "\n",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"first", `systemctl daemon-reload && systemctl start --no-block a.service 'mnt-\x2d.mount'`}, got["runcmd"]); diff != "" {
		t.Errorf("runcmd (-want +got):\n%s", diff)
	}
	if len(config.CloudInitModules.RunCMD) != 1 {
		t.Error("encoding changed its argument")
	}

	got = parseYAML(t, encode(t, documentOf(stageProvisioning, *pool, "ubuntu", config)))
	if diff := cmp.Diff([]any{"first"}, got["runcmd"]); diff != "" {
		t.Errorf("the provisioning stage never runs its commands, but has (-want +got):\n%s", diff)
	}

	got = parseYAML(t, encode(t, documentOf(stageBootstrap, *pool, "flatcar", config)))
	coreos := map[string]any{"units": []any{
		map[string]any{"name": "a.service", "enable": true, "command": "start", "mask": false, "content": content,
			"drop_ins": []any{map[string]any{"name": "10-x.conf", "content": "[Service]\n"}}},
		map[string]any{"name": "masked.service", "enable": true, "command": "start", "mask": true, "content": content},
		map[string]any{"name": `mnt-\x2d.mount`, "enable": true, "command": "start", "mask": false, "content": escaped},
		map[string]any{"name": "quiet.timer", "enable": false, "mask": false},
	}}
	if diff := cmp.Diff(map[string]any{"ssh_pwauth": false, "coreos": coreos, "runcmd": []any{"first"}}, got); diff != "" {
		t.Errorf("flatcar (-want +got):\n%s", diff)
	}
}

func TestPermissions(t *testing.T) {
	for permissions, want := range map[int32]string{644: "0644", 44: "0044", 7: "0007", 1755: "1755", 7777: "7777", 0: "0000"} {
		mode, err := userdata.ParsePermissions(permissions)
		if err != nil || userdata.PermissionsText(mode) != want {
			t.Errorf("%d: %q, %v, want %q", permissions, userdata.PermissionsText(mode), err, want)
		}
	}
	for _, permissions := range []int32{8, 690, 10000, -644, 17777} {
		if mode, err := userdata.ParsePermissions(permissions); err == nil {
			t.Errorf("%d is taken for %o", permissions, mode)
		}
	}
}
