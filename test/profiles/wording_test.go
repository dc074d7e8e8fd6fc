package profiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// facts are strings that existing nodes, units or profiles depend on byte for byte and that cannot
// be worded differently: files, units and flags of operating-system-manager's profiles, and terms of Kubernetes, systemd and containerd. A line that contains one has little other text.
var facts = []string{
	// Paths of files.
	"/etc/default/grub.d/60-swap-accounting.cfg",
	"/etc/systemd/journald.conf.d/max_disk_use.conf",
	"/etc/systemd/network/static.network",
	"/etc/systemd/network/zz-default.network.d/ipv6-fix.conf",
	"/etc/systemd/system/bootstrap.service",
	"/etc/systemd/system/containerd.service.d/10-custom.conf",
	"/etc/systemd/system/containerd.service.d/environment.conf",
	"/etc/systemd/system/containerd.service.d/limits.conf",
	"/etc/systemd/system/kubelet-healthcheck.service",
	"/etc/systemd/system/kubelet.service",
	"/opt/bin/setup_kernel_for_kubelet.sh",
	// What units start.
	"ExecStart=/opt/bin/health-monitor.sh kubelet",
	"ExecStart=/opt/bin/supervise.sh /opt/bin/bootstrap",
	"ExecStart=/opt/bin/supervise.sh /opt/bin/setup",
	`GRUB_CMDLINE_LINUX="cgroup_enable=memory swapaccount=1"`,
	// Flags and settings of the kubelet, and of crictl.
	"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
	"--cloud-config=/etc/kubernetes/cloud-config",
	"--hostname-override=${KUBELET_HOSTNAME}",
	"--kubeconfig=/var/lib/kubelet/kubeconfig",
	"apiVersion: kubelet.config.k8s.io/v1beta1",
	"clientCAFile: /etc/kubernetes/pki/ca.crt",
	"resolvConf: /run/systemd/resolve/resolv.conf",
	"runtime-endpoint: unix:///run/containerd/containerd.sock",
	"staticPodPath: /etc/kubernetes/manifests",
	"volumePluginDir: /var/lib/kubelet/volumeplugins",
	// The kind of a profile, and the data of its templates.
	"apiVersion: operatingsystemmanager.k8c.io/v1alpha1",
	`eq .NetworkIPFamily "IPv4+IPv6"`,
	`eq .NetworkIPFamily "IPv6+IPv4"`,
	`eq .CloudProviderName "hetzner"`,
	".FlatcarConfig.DisableAutoUpdate",
	".ImageGCHighThresholdPercent",
}

// TestWording: no line of our profiles occurs in a profile of the corpus as well, unless it only
// states a fact. Our profiles are our own work.
func TestWording(t *testing.T) {
	theirs := linesOf(t, filepath.Join(conformance.Dir(t), "profiles"))
	ours := linesOf(t, filepath.Join(root, shippedDir))
	if len(theirs) == 0 || len(ours) == 0 {
		t.Fatalf("found %d lines of the corpus and %d of ours", len(theirs), len(ours))
	}
	met := map[string]bool{}
	for line, file := range ours {
		if _, ok := theirs[line]; !ok {
			continue
		}
		fact := factIn(line)
		if fact == "" {
			t.Errorf("%s: the line %q also stands in %s: write it anew, or say among the facts what relies on it", file, line, theirs[line])
		}
		met[fact] = true
	}
	for _, fact := range facts {
		if !met[fact] {
			t.Errorf("nothing that both have holds the fact %q: remove it", fact)
		}
	}
}

// factIn returns the longest fact that a line holds, empty when it holds none.
func factIn(line string) string {
	longest := ""
	for _, fact := range facts {
		if strings.Contains(line, fact) && len(fact) > len(longest) {
			longest = fact
		}
	}
	return longest
}

// linesOf returns the long lines of a folder's profiles, without their indentation and
// a list's dash, each with a file that has it.
func linesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	const long = 40 // characters; shorter ones are keys, sections of units and ends of blocks
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
			if len(line) >= long {
				out[line] = filepath.Base(file)
			}
		}
	}
	return out
}
