package profiles_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// TestContents: small files of shipped profiles have the same content as in
// operating-system-manager's.
func TestContents(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		if !r.shipped {
			continue
		}
		node := r.node()
		want := map[string]map[string]string{
			"/etc/sysctl.d/k8s.conf":                         wantSysctl(r),
			"/etc/systemd/journald.conf.d/max_disk_use.conf": {"SystemMaxUse": "5G"},
		}
		switch {
		case r.profile.Spec.OSName == osm.OperatingSystemUbuntu:
			want["/etc/default/grub.d/60-swap-accounting.cfg"] = map[string]string{"GRUB_CMDLINE_LINUX": `"cgroup_enable=memory swapaccount=1"`}
		case !r.coreOS():
			want["/etc/selinux/config"] = map[string]string{"SELINUX": "permissive", "SELINUXTYPE": "targeted"}
		default:
			want["/etc/systemd/network/static.network"] = wantNetwork(r)
		}
		for path, want := range want {
			if diff := cmp.Diff(want, settings(node[path].content)); diff != "" {
				out.add(path+" (-want +got):\n"+diff, r.name)
			}
		}
		for path, want := range map[string]string{"/etc/kubernetes/pki/ca.crt": r.in.Settings.KubernetesCACert, "/etc/kubernetes/cloud-config": overwritten(r)} {
			if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(node[path].content)); diff != "" {
				out.add(path+" (-want +got):\n"+diff, r.name)
			}
		}
	}
	out.fail(t)
}

func overwritten(r *rendering) string {
	if config := r.in.Pool.OverwriteCloudConfig; config != nil {
		return *config
	}
	return "" // of every supported kubelet
}

func wantSysctl(r *rendering) map[string]string {
	want := map[string]string{
		"net.bridge.bridge-nf-call-ip6tables": "1", "net.bridge.bridge-nf-call-iptables": "1", "kernel.panic_on_oops": "1", "kernel.panic": "10",
		"net.ipv4.ip_forward": "1", "vm.overcommit_memory": "1", "fs.inotify.max_user_watches": "1048576", "fs.inotify.max_user_instances": "8192",
	}
	if r.in.Pool.Network.GetIPFamily().HasIPv6() {
		want["net.ipv6.conf.all.forwarding"], want["net.ipv6.conf.all.accept_ra"] = "1", "2"
	}
	return want
}

// wantNetwork is static.network, which is empty unless the pool has fixed addresses.
func wantNetwork(r *rendering) map[string]string {
	switch r.values[matrix.Network] {
	case "static":
		return map[string]string{"Name": "en*", "DHCP": "no", "Address": "192.0.2.10/24", "Gateway": "192.0.2.1", "DNS": "192.0.2.2 192.0.2.3"}
	case "dns alone":
		return map[string]string{"Name": "en*", "DHCP": "no", "DNS": "2001:db8::53"}
	}
	return map[string]string{}
}

// settings are the lines key=value of a file; values of a repeated key are joined.
func settings(content string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(content, "\n") {
		key, value, ok := strings.Cut(line, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !ok || strings.HasPrefix(key, "#") {
			continue
		}
		if old, twice := out[key]; twice {
			value = old + " " + value
		}
		out[key] = value
	}
	return out
}
