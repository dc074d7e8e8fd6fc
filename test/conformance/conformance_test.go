package conformance

import (
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// recorder notes failures instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }

const document = `#cloud-config
hostname: <MACHINE_NAME>
ssh_pwauth: false
ssh_authorized_keys:
write_files:
- path: '/a'
  permissions: '0644'
  content: |-
    text
    
- path: /b
  permissions: '0755'
  encoding: 'b64'
  content: |-
    dGV4dAo=
coreos:
  units:
  - name: "a.service"
    enable: true
    command: start
    mask: false
    content: |
      [Unit]
runcmd:
- first
rh_subscription:
  password: 
  auto-attach: false
yum_repos:
  epel:
    enabled: 1
`

const ours = `#cloud-config
hostname: <MACHINE_NAME>
ssh_pwauth: false
write_files:
  - {path: /b, permissions: '0755', content: "text\n"}
  - {path: /a, permissions: '0644', content: "text\n"}
  - {path: /etc/systemd/system/a.service, permissions: '0644', content: "[Unit]\n"}
  - {path: /etc/systemd/system/multi-user.target.d/10-a.service.conf, permissions: '0644', content: "[Unit]\nWants=a.service\n"}
runcmd: [first, systemctl daemon-reload && systemctl start --no-block a.service]
rh_subscription: {password: '', auto-attach: false}
yum_repos: {epel: {enabled: true}}
`

// The comparison treats documents with the same meaning as equal, and no others.
func TestCompareUserData(t *testing.T) {
	CompareUserData(t, []byte(document), []byte(ours))
	for _, change := range [][2]string{
		{"first", "second"}, {"0755", "0700"}, {`"text\n"`, `"Text\n"`}, {"/b", "/c"}, {"password: ''", "password: x"}, {"enabled: true", "enabled: false"},
		{"ssh_pwauth: false", "ssh_pwauth: true"}, {"ssh_pwauth: false", "ssh_pwauth: false\nbootcmd: [x]"}, {"hostname: <MACHINE_NAME>\n", ""},
		{"Wants=a.service", "Wants=b.service"}, {"--no-block a.service", "--no-block b.service"}, {"#cloud-config", "# cloud-config"}, {"auto-attach: false", "auto-attach: true"},
	} {
		changed := strings.ReplaceAll(ours, change[0], change[1])
		if changed == ours {
			t.Fatalf("%q is not in the document", change[0])
		}
		r := &recorder{TB: t}
		if CompareUserData(r, []byte(document), []byte(changed)); !r.failed {
			t.Errorf("%q instead of %q makes no difference", change[1], change[0])
		}
	}
}

func TestCompareOSC(t *testing.T) {
	spec := func(path, data string) osm.OperatingSystemConfigSpec {
		return osm.OperatingSystemConfigSpec{OSName: "ubuntu", BootstrapConfig: osm.OSCConfig{Files: []osm.File{
			{Path: path, Permissions: 600, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}},
		}}}
	}
	CompareOSC(t, spec("/a.toml", "[a]\nb = 1\n"), spec("/a.toml", "a.b=1"))
	CompareOSC(t, spec("/a", "imageMinimumGCAge: &Duration{Duration:5m0s,}\n"), spec("/a", "imageMinimumGCAge: 5m0s"))
	CompareOSC(t, spec("/k", "kind: Config\nusers: []\n"), spec("/k", "users: []\nkind: Config\n"))
	for _, other := range []osm.OperatingSystemConfigSpec{spec("/b.toml", "a.b=1"), spec("/a.toml", "a.b=2"), {OSName: "ubuntu"}} {
		r := &recorder{TB: t}
		if CompareOSC(r, spec("/a.toml", "a.b=1"), other); !r.failed {
			t.Errorf("%+v makes no difference", other)
		}
	}
}
