package nodescripts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// bare is what an image, a kernel or a mirror may lack. Each comes alone in a soak,
// and all at once otherwise.
var bare = map[string][]string{
	"curl, until it is installed": {"curl"},
	"jq":                          {"jq"},
	"a firewall":                  {"ufw.service", "firewalld.service"},
	"units of the image": {
		"cloud-init.service", "systemd-journald.service", "systemd-modules-load.service", "systemd-resolved.service", "systemd-networkd.service",
		"docker.service", "docker.socket", "update-engine.service", "locksmithd.service", "NetworkManager.service",
	},
	"kernel modules":         {"ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "nf_conntrack", "br_netfilter"},
	"the programs for those": {"modprobe", "modinfo"},
	"files":                  {"/etc/fstab", "/etc/environment", "/etc/ca-certificates.conf"},
	"hostnamectl":            {"hostnamectl"},
	"tools of a system":      {"setenforce", "nmcli", "netplan", "subscription-manager"},
	"packages that some mirrors do not have": packages(
		"ceph-common", "cifs-utils", "glusterfs-client", "nfs-common", "nfs-utils", "bash-completion", "lvm2",
		"device-mapper-persistent-data", "wget", "open-iscsi", "qemu-guest-agent", "python3-dnf-plugin-versionlock", "yum-plugin-versionlock"),
}

func packages(names ...string) []string {
	for i, name := range names {
		names[i] = packagePrefix + name
	}
	return names
}

// TestBareImage: a node comes up without the optional programs that its image lacks.
func TestBareImage(t *testing.T) {
	for _, s := range booted() {
		lacks := map[string][]string{"all of it": nil}
		for name, list := range bare {
			if soak {
				lacks[name] = list
			}
			// The images that have no package manager have curl.
			if !strings.HasPrefix(s.profile, "osp-flatcar") || list[0] != "curl" {
				lacks["all of it"] = append(lacks["all of it"], list...)
			}
		}
		if strings.HasPrefix(s.profile, "osp-flatcar") {
			delete(lacks, "curl, until it is installed")
		}
		for name, without := range lacks {
			t.Run(s.profile+" without "+name, func(t *testing.T) {
				parallel(t)
				r := rehearse(t, s.with(func(s *scenario) { s.image = func(i *system) { i.without = without } }))
				r.up()
				r.finished()
				if len(r.sleeps) > 0 {
					t.Errorf("%d attempts have failed", len(r.sleeps))
				}
				r.kubelet()
			})
		}
	}
}

// TestBusyPackageManager: another process holds the lock, a mirror is down: the script retries.
func TestBusyPackageManager(t *testing.T) {
	for _, s := range booted() {
		if strings.HasPrefix(s.profile, "osp-flatcar") {
			continue
		}
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			want := withoutFaults(t, s)
			r := rehearse(t, s)
			failures := 4
			r.override = failing(&failures, "apt-get", "yum")
			r.up()
			r.finished()
			r.equals(want.tree)
			if failures > 0 || len(r.sleeps) == 0 {
				t.Errorf("%d failures are left, %d attempts have failed", failures, len(r.sleeps))
			}
		})
	}
}

// failing makes every other call of these programs fail, so many times.
func failing(times *int, programs ...string) func(protocol.Call) *protocol.Reply {
	odd := false
	return func(c protocol.Call) *protocol.Reply {
		if !slices.Contains(programs, c.Argv[0]) {
			return nil
		}
		if odd = !odd; !odd || *times == 0 {
			return nil
		}
		*times--
		r := failure(100, "E: Could not get lock")
		return &r
	}
}
