package render_test

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const findingsProfile = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-findings
spec:
  version: v1.0.0
  osName: OSNAME
  osVersion: "1"
  supportedCloudProviders:
  - name: aws
  bootstrapConfig:
    modules:
      BOOTSTRAP
    files:
    - path: /opt/bin/bootstrap
      permissions: 755
      content:
        inline:
          data: |
            #!/bin/bash
            SCRIPT
  provisioningConfig:
    modules:
      PROVISIONING
    units:
    - name: setup.service
      enable: true
      content: |
        [Service]
        ExecStart=/opt/bin/setup
    - UNIT
`

func TestFindings(t *testing.T) {
	for name, test := range map[string]struct {
		system, bootstrap, provisioning, script, unit string
		want                                          []string // parts of the findings, in their order
	}{
		"nothing to say": {},
		"a repository without an address": {bootstrap: `{yum_repos: {epel: {name: EPEL}}}`,
			want: []string{"osp-findings.yaml:13: bootstrapConfig.modules.yum_repos[epel]: cloud-init takes no such value: missing property 'baseurl', or missing property 'metalink', or missing property 'mirrorlist'"}},
		"a repository with everything": {bootstrap: `{yum_repos: {epel: {baseurl: "https://x/", enabled: "1", gpgcheck: "0"}}, yum_repo_dir: /etc/yum.repos.d}`},
		"a key that cloud-init does not have": {bootstrap: `{rh_subscription: {user: me}}`,
			want: []string{"bootstrapConfig.modules.rh_subscription: cloud-init takes no such value: additional properties 'user' not allowed"}},
		"a boolean that is none": {bootstrap: `{rh_subscription: {auto-attach: perhaps}}`,
			want: []string{"bootstrapConfig.modules.rh_subscription[auto-attach]: cloud-init takes no such value: got string, want boolean"}},
		"a boolean in quotes":                {bootstrap: `{rh_subscription: {auto-attach: "true", username: me, password: "0123"}}`},
		"what a pool of RHEL puts in itself": {system: "rhel", bootstrap: `{rh_subscription: {user: me}}`},
		"any command will do":                {bootstrap: `{runcmd: ["a: b", "true"], bootcmd: ["x"]}`},
		"commands quoted twice": {bootstrap: `{runcmd: ["\"echo a: b\"", "'echo a: b'", '[sh, -c, "echo a"]'], bootcmd: ["  [reboot]", "\"a\\nb c\""]}`,
			want: []string{
				`bootstrapConfig.modules.bootcmd[0]: operating-system-manager reads this text as YAML, as a list, but here the shell gets it unchanged: write "reboot"`,
				`bootstrapConfig.modules.bootcmd[1]: operating-system-manager reads this text as YAML, without the quotes, but here the shell gets it unchanged: write "a\nb c"`,
				`bootstrapConfig.modules.runcmd[0]: operating-system-manager reads this text as YAML, without the quotes, but here the shell gets it unchanged: write "echo a: b"`,
				`bootstrapConfig.modules.runcmd[1]: operating-system-manager reads this text as YAML, without the quotes`,
				`bootstrapConfig.modules.runcmd[2]: operating-system-manager reads this text as YAML, as a list, but here the shell gets it unchanged: write "sh -c 'echo a'"`,
			}},
		"a list that begins with a word of the shell": {bootstrap: `{runcmd: ["[if, x]", "[time, for, x]", "\"done\""]}`,
			want: []string{`as a list, but here the shell gets it unchanged: write "'if' x"`, `write "'time' for x"`, `without the quotes, but here the shell gets it unchanged: write "done"`}},
		"values quoted twice": {bootstrap: `{yum_repos: {epel: {baseurl: "https://x/", name: ' "EPEL: 9"'}}}`,
			want: []string{`bootstrapConfig.modules.yum_repos[epel][name]: operating-system-manager reads this text as YAML, without the quotes, and here they are part of it: write "EPEL: 9"`}},
		"commands that begin like it": {bootstrap: `{runcmd: ['"reboot"', '"/opt/my tool" --now', "[ -f /a ]", "[ -f /a ] && reboot", '[ "$(id -u)" = 0 ]', "[]", "'", "[a: &b [*b]]", "{ a; }", "echo a: b"]}`},
		"late modules of the provisioning stage": {provisioning: `{runcmd: [x], bootcmd: [y], rh_subscription: {username: a}}`,
			want: []string{"provisioningConfig.modules.runcmd: is for a late stage", "provisioningConfig.modules.rh_subscription: is for a late stage"}},
		"an enabled unit that nothing starts": {script: "echo setup.service",
			want: []string{`osp-findings.yaml:26: provisioningConfig.units[0]: "setup.service" comes with the provisioning stage, and it starts at the next boot only: let a script run "systemctl start --no-block setup.service"`}},
		"a unit that nothing starts": {unit: `{name: other.service, content: "[Service]\nExecStart=/x\n"}`,
			want: []string{`provisioningConfig.units[1]: "other.service" comes with the provisioning stage, and nothing starts it`}},
		"a unit that another one wants":      {unit: `{name: other.service, content: "[Unit]\nWants=setup.service\n[Service]\nExecStart=/x\n"}`, script: "systemctl start other"},
		"a unit on a continued line":         {script: "systemctl restart --no-block \\\n              setup"},
		"a unit that is enabled and started": {script: "systemctl enable --now setup"},
		"a masked unit":                      {unit: `{name: other.service, mask: true, content: x}`},
		"a drop-in":                          {unit: `{name: other.service, dropIns: [{name: a.conf, content: "[Service]"}]}`},
		"Flatcar starts units itself":        {system: "flatcar", script: "true", bootstrap: `{yum_repos: {epel: {name: EPEL}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			or := func(s, otherwise string) string {
				if s == "" {
					return otherwise
				}
				return s
			}
			text := strings.NewReplacer("OSNAME", or(test.system, "rockylinux"), "BOOTSTRAP", or(test.bootstrap, "{}"), "PROVISIONING", or(test.provisioning, "{}"),
				"SCRIPT", or(test.script, "systemctl start --no-block setup.service"), "UNIT", or(test.unit, `{name: containerd.service}`)).Replace(findingsProfile)
			docs, err := profile.Decode("osp-findings.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			doc := docs[0]
			got := render.Profile{Spec: doc.Spec, Object: doc.Name, File: doc.Path, Lines: doc.Line, Provenance: render.Provenance{Profile: doc.Name}}.Findings()
			for i, f := range got {
				if i >= len(test.want) || !strings.Contains(f.Error(), test.want[i]) {
					t.Errorf("finding %d: %v", i, f)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("%d findings, want %q", len(got), test.want)
			}
		})
	}
}
