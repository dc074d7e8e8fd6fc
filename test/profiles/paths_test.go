package profiles_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// pathRow says which built-in profiles of operating-system-manager write a file, in which stage, and
// the mode it has. Columns are U (ubuntu), E (rhel, rockylinux, amzn2), F (flatcar)
// and C (flatcar-cloud-init); B is the bootstrap stage, P provisioning, "-" none.
type pathRow struct {
	path       string
	u, e, f, c string
	mode       uint32
}

var osmPaths = []pathRow{
	{"/opt/bin/supervise.sh", "B", "B", "B", "B", 0o755},
	{"/opt/bin/bootstrap", "B", "B", "B", "-", 0o755},
	{"/etc/systemd/system/bootstrap.service", "B", "B", "B", "-", 0o644},
	{"/etc/systemd/network/static.network", "-", "-", "B", "-", 0o644},
	{"/etc/systemd/system/bootstrap.service.d/10-network-wait.conf", "-", "-", "B", "-", 0o644},
	{"/opt/bin/health-monitor.sh", "P", "P", "P", "B", 0o755},
	{"/etc/systemd/journald.conf.d/max_disk_use.conf", "P", "P", "P", "B", 0o644},
	{"/opt/load-kernel-modules.sh", "P", "P", "P", "B", 0o755},
	{"/etc/sysctl.d/k8s.conf", "P", "P", "P", "B", 0o644},
	{"/etc/default/grub.d/60-swap-accounting.cfg", "P", "-", "-", "-", 0o644},
	{"/etc/selinux/config", "-", "P", "-", "-", 0o644},
	{"/opt/bin/setup", "P", "P", "P", "B", 0o755},
	{"/etc/systemd/system/kubelet.service", "P", "P", "P", "B", 0o600},
	{"/etc/kubernetes/cloud-config", "P", "P", "P", "B", 0o600},
	{"/opt/bin/setup_net_env.sh", "P", "P", "P", "B", 0o755},
	{"/etc/kubernetes/pki/ca.crt", "P", "P", "P", "B", 0o644},
	{"/etc/systemd/system/setup.service", "P", "P", "P", "B", 0o644},
	{"/etc/profile.d/opt-bin-path.sh", "P", "P", "-", "-", 0o644},
	{"/etc/kubernetes/kubelet.conf", "P", "P", "P", "B", 0o600},
	{"/etc/systemd/system/kubelet-healthcheck.service", "P", "P", "P", "B", 0o644},
	{"/opt/disable-swap.sh", "P", "P", "-", "-", 0o755},
	{"/etc/systemd/network/zz-default.network.d/ipv6-fix.conf", "-", "-", "P", "B", 0o755},
	{"/proc/sys/kernel/panic_on_oops", "-", "-", "P", "-", 0o644},
	{"/proc/sys/kernel/panic", "-", "-", "P", "-", 0o644},
	{"/proc/sys/vm/overcommit_memory", "-", "-", "P", "-", 0o644},
	{"/opt/bin/setup_kernel_for_kubelet.sh", "-", "-", "-", "B", 0o755},
	{"/etc/systemd/system/kubelet.service.d/flatcar-system-config.conf", "-", "-", "-", "B", 0o644},
	{"/etc/ssh/sshd_config", "-", "-", "P", "B", 0o600},
	{"/etc/systemd/system/systemd-networkd.service.d/10-static-network.conf", "-", "-", "-", "B", 0o644},
	{"/etc/systemd/system/containerd.service.d/environment.conf", "P", "P", "P", "B", 0o644},
	{"/etc/systemd/system/containerd.service.d/limits.conf", "P", "-", "-", "-", 0o644},
	{"/etc/crictl.yaml", "P", "P", "P", "B", 0o644},
	{"/etc/containerd/config.toml", "P", "P", "P", "B", 0o600},
	{"/etc/systemd/system/containerd.service.d/10-custom.conf", "-", "-", "P", "B", 0o644},
}

// deviation is where shipped profiles leave the table, with the reason.
type deviation struct {
	absent bool
	mode   uint32
	reason string
}

var deviations = map[string]deviation{
	"/opt/bin/setup":                                                        {mode: 0o700, reason: "the URLs of mirrors in it may hold a password"},
	"/proc/sys/kernel/panic_on_oops":                                        {absent: true, reason: "Ignition writes below the mount point, which does nothing; /etc/sysctl.d/k8s.conf has it"},
	"/proc/sys/kernel/panic":                                                {absent: true, reason: "as panic_on_oops"},
	"/proc/sys/vm/overcommit_memory":                                        {absent: true, reason: "as panic_on_oops"},
	"/etc/systemd/network/zz-default.network.d/ipv6-fix.conf":               {mode: 0o644, reason: "it is no program"},
	"/etc/systemd/system/systemd-networkd.service.d/10-static-network.conf": {absent: true, reason: "network settings have no effect in a service's drop-in; /etc/systemd/network/static.network has them"},
}

// TestPaths: a node of a shipped profile has every file of osmPaths, with its mode,
// except for deviations.
func TestPaths(t *testing.T) {
	var out report
	used := map[string]bool{}
	for _, r := range renderings(t) {
		if !r.shipped {
			continue
		}
		stages := map[string]map[string]file{"B": r.bootstrap.nodeFiles(), "P": r.provisioning.nodeFiles()}
		for _, row := range osmPaths {
			where := row.column(r)
			if where == "-" {
				continue
			}
			f, ok := stages[where][row.path]
			d := deviations[row.path]
			want := row.mode
			if d.mode != 0 {
				want = d.mode
			}
			switch {
			case d.absent && !ok || ok && f.mode == d.mode && d.mode != 0:
				used[row.path] = true
			case d.absent:
				out.add(row.path+" is there, although it is listed as left out: "+d.reason, r.name)
			case !ok:
				out.add(row.path+" is missing in stage "+where, r.name)
			case f.mode != want:
				out.add(fmt.Sprintf("%s has mode %04o, want %04o", row.path, f.mode, want), r.name)
			}
		}
	}
	out.fail(t)
	for path, d := range deviations {
		if !used[path] {
			t.Errorf("no profile deviates at %s any more: %s", path, d.reason)
		}
	}
}

func (row pathRow) column(r *rendering) string {
	switch {
	case r.profile.Spec.OSName == osm.OperatingSystemUbuntu:
		return row.u
	case !r.coreOS():
		return row.e
	case r.profile.Spec.ProvisioningUtility == osm.ProvisioningUtilityIgnition:
		return row.f
	}
	return row.c
}

// TestModes: scripts are executable, other files are not, and only root can write.
func TestModes(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		for path, f := range r.node() {
			switch program := strings.HasPrefix(f.content, "#!"); {
			case program && f.mode&0o100 == 0:
				out.add(fmt.Sprintf("%s is a script of mode %04o", path, f.mode), r.name)
			case !program && f.mode&0o111 != 0:
				out.add(fmt.Sprintf("%s is no script and has mode %04o", path, f.mode), r.name)
			case f.mode&0o022 != 0:
				out.add(fmt.Sprintf("%s can be written by others: mode %04o", path, f.mode), r.name)
			}
		}
	}
	out.fail(t)
}

// step is a text that a shipped profile's setup, and what it runs, must have on some
// systems and providers.
type step struct {
	name      string
	text      string
	systems   []osm.OperatingSystem
	providers []osm.CloudProvider // nil: all
	when      map[string]string   // values of dimensions that it needs
}

const (
	ubuntu      = osm.OperatingSystemUbuntu
	redHat      = osm.OperatingSystemRHEL
	rocky       = osm.OperatingSystemRockyLinux
	amazon      = osm.OperatingSystemAmazon2
	flatcarName = osm.OperatingSystemFlatcar
)

func steps() []step {
	el := []osm.OperatingSystem{redHat, rocky, amazon}
	all := append([]osm.OperatingSystem{ubuntu, flatcarName}, el...)
	out := []step{
		{"ufw is stopped", "ufw", []osm.OperatingSystem{ubuntu}, nil, nil},
		{"ufw stays off", "systemctl mask ufw", []osm.OperatingSystem{ubuntu}, nil, nil},
		{"SELinux lets go", "setenforce 0", el, nil, nil},
		{"firewalld stays off", "firewalld", el, nil, nil},
		{"kernel settings are loaded", "sysctl", append([]osm.OperatingSystem{ubuntu}, el...), nil, nil},
		{"the host's CA is trusted", "update-ca-certificates", []osm.OperatingSystem{ubuntu, flatcarName}, nil, map[string]string{matrix.HostCA: "one"}},
		{"the host's CA is trusted", "update-ca-trust", el, nil, map[string]string{matrix.HostCA: "one"}},
		{"the host's CA is an anchor", "/etc/pki/ca-trust/source/anchors/", el, nil, map[string]string{matrix.HostCA: "one"}},
		{"the name is the machine's", "/etc/machine-name", []osm.OperatingSystem{ubuntu, redHat, rocky, flatcarName}, nil, nil},
		{"containerd is held", "apt-mark hold containerd.io", []osm.OperatingSystem{ubuntu}, nil, nil},
		{"containerd is held", "versionlock add containerd", el, nil, nil},
		{"the agent of VMware", "open-vm-tools", []osm.OperatingSystem{ubuntu, redHat, rocky}, []osm.CloudProvider{"vsphere"}, nil},
		{"the agent of VMware", "open-vm-tools", []osm.OperatingSystem{ubuntu}, []osm.CloudProvider{"vmware-cloud-director"}, nil},
		{"the agent of QEMU", "qemu-guest-agent", []osm.OperatingSystem{ubuntu, redHat, rocky}, []osm.CloudProvider{"kubevirt"}, nil},
		{"iSCSI", "open-iscsi", []osm.OperatingSystem{ubuntu}, []osm.CloudProvider{"nutanix"}, nil},
		{"CNI plugins", "containernetworking/plugins/releases/download", all, nil, map[string]string{matrix.Downloads: "publishers"}},
		{"crictl", "kubernetes-sigs/cri-tools/releases/download", all, nil, map[string]string{matrix.Downloads: "publishers"}},
		{"Kubernetes", "https://dl.k8s.io", all, nil, map[string]string{matrix.Downloads: "publishers"}},
		{"checksums", "sha256sum --check", all, nil, nil},
		{"mirrors", "mirror.example.com/kubernetes", all, nil, map[string]string{matrix.Downloads: "mirrors"}},
		{"digests", strings.Repeat("0123456789abcdef", 4), all, nil, map[string]string{matrix.Downloads: "digests"}},
		{"the kubeconfig is fetched", "kube-system-worker-pool-a-kubelet-bootstrap-config", all, nil, nil},
		{"no updates of Flatcar", "update-engine", []osm.OperatingSystem{flatcarName}, nil, map[string]string{matrix.System: "no engine"}},
		{"no reboots of Flatcar", "locksmithd", []osm.OperatingSystem{flatcarName}, nil, map[string]string{matrix.System: "no locksmith"}},
	}
	for _, name := range []string{"curl", "ca-certificates", "ceph-common", "cifs-utils", "conntrack", "e2fsprogs", "ebtables", "ethtool",
		"glusterfs-client", "iptables", "jq", "kmod", "openssh-client", "nfs-common", "socat", "util-linux", "ipvsadm"} {
		out = append(out, step{"package", name, []osm.OperatingSystem{ubuntu}, nil, nil})
	}
	for _, name := range []string{"device-mapper-persistent-data", "lvm2", "ebtables", "ethtool", "nfs-utils", "bash-completion", "sudo", "socat", "wget", "curl", "ipvsadm"} {
		out = append(out, step{"package", name, el, nil, nil})
	}
	return append(out, step{"package", "tar", []osm.OperatingSystem{rocky}, nil, nil})
}

// TestSteps: every step of operating-system-manager's profiles is in the scripts that run it.
func TestSteps(t *testing.T) {
	var out report
	met := map[int]int{}
	for _, r := range renderings(t) {
		if !r.shipped {
			continue
		}
		setup := r.node()["/opt/bin/setup"].content
		for i, s := range steps() {
			if !slices.Contains(s.systems, r.profile.Spec.OSName) || s.providers != nil && !slices.Contains(s.providers, r.in.Pool.CloudProvider) {
				continue
			}
			applies := true
			for dimension, value := range s.when {
				applies = applies && r.values[dimension] == value
			}
			if !applies {
				continue
			}
			met[i]++
			if !strings.Contains(setup, s.text) {
				out.add(fmt.Sprintf("/opt/bin/setup: %s: there is no %q", s.name, s.text), r.name)
			}
		}
	}
	out.fail(t)
	for i, s := range steps() {
		if met[i] == 0 {
			t.Errorf("no combination is there for %q (%s)", s.text, s.name)
		}
	}
}

// TestNeverDisablesCloudInit: cloud-init.service is not disabled by its name. It is
// not on every image, and a script that ends there runs for ever.
func TestNeverDisablesCloudInit(t *testing.T) {
	var out report
	for _, s := range scripts(t) {
		for _, line := range commands(s.what.content) {
			if strings.Contains(line, "systemctl disable cloud-init") {
				out.add(s.what.path+" disables cloud-init by the name of a unit that is not everywhere: "+line, s.in)
			}
		}
	}
	out.fail(t)
}

// TestKeys: a pool's SSH keys reach its machines unchanged, in both stages.
func TestKeys(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		for name, s := range r.stages() {
			user := ""
			if s.ignition {
				user = "core"
			}
			if !slices.Equal(s.users[user], r.in.Pool.SSHPublicKeys) {
				out.add(fmt.Sprintf("%s: the SSH keys of %q are %q, want %q", name, user, s.users[user], r.in.Pool.SSHPublicKeys), r.name)
			}
		}
	}
	out.fail(t)
}
