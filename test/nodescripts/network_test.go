package nodescripts_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// proxyEnvironment is what units and logins read of withProxy's settings.
var proxyEnvironment = []string{
	"HTTP_PROXY=http://" + proxyHost + ":" + proxyPort, "http_proxy=http://" + proxyHost + ":" + proxyPort,
	"HTTPS_PROXY=http://" + proxyHost + ":" + proxyPort, "https_proxy=http://" + proxyHost + ":" + proxyPort,
	"NO_PROXY=" + apiHost + ",127.0.0.1", "no_proxy=" + apiHost + ",127.0.0.1",
}

func withProxy(s *scenario) {
	s.settings = func(s *render.Settings) {
		s.NodeHTTPProxy = "http://" + proxyHost + ":" + proxyPort
		s.NodeNoProxy = apiHost + ",127.0.0.1"
	}
}

// TestProxy: downloads go through the proxy, and what no-proxy names does not.
func TestProxy(t *testing.T) {
	const password = "pr0xy-pa55word"
	for _, s := range booted() {
		for _, c := range []struct {
			name, proxy, noProxy string
			tunnelled            bool // the API server's
		}{
			{"the API server is not to be proxied", "http://" + proxyHost + ":" + proxyPort, "localhost," + apiHost, false},
			{"all is proxied, with a password", "http://node:" + password + "@" + proxyHost + ":" + proxyPort, "localhost", true},
		} {
			t.Run(s.profile+" "+c.name, func(t *testing.T) {
				parallel(t)
				r := rehearse(t, s.with(func(s *scenario) {
					s.settings = func(s *render.Settings) { s.NodeHTTPProxy, s.NodeNoProxy = c.proxy, c.noProxy }
				}))
				r.secrets = append(r.secrets, password)
				// Nothing but the proxy knows the names of the downloads.
				known := []string{"localhost", proxyHost}
				if !c.tunnelled {
					known = append(known, apiHost)
				}
				r.write("/etc/hosts", "127.0.0.1 "+strings.Join(known, " ")+"\n", 0o644)
				r.cloud.proxy()
				r.up()
				r.finished()
				if len(r.sleeps) > 0 {
					t.Errorf("%d attempts have failed", len(r.sleeps))
				}
				if !contains(r.cloud.tunnels, "dl.k8s.io", "github.com", assetsHost) {
					t.Errorf("the proxy was asked for %q only", r.cloud.tunnels)
				}
				if slices.Contains(r.cloud.tunnels, apiHost) != c.tunnelled {
					t.Errorf("the proxy was asked for the API server: %t, want %t", !c.tunnelled, c.tunnelled)
				}
			})
		}
	}
}

// TestMirrors: with mirrors for all publishers a node contacts no other host.
func TestMirrors(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, s.with(func(s *scenario) {
				s.settings = func(s *render.Settings) {
					const mirror = "https://node:mirror-pa55word@" + mirrorHost + "/"
					s.DownloadMirrors = map[string]string{
						"kubernetes": mirror + "dl.k8s.io", "docker": mirror + "download.docker.com/",
						"cni":    mirror + "github.com/containernetworking/plugins/releases/download",
						"crictl": mirror + "github.com/kubernetes-sigs/cri-tools/releases/download",
					}
				}
			}))
			r.secrets = append(r.secrets, "mirror-pa55word")
			r.write("/etc/hosts", "127.0.0.1 localhost "+mirrorHost+" "+apiHost+"\n", 0o644)
			r.up()
			r.finished()
			if len(r.sleeps) > 0 {
				t.Errorf("%d attempts have failed", len(r.sleeps))
			}
		})
	}
}

// TestNetworkEnvironment: the addresses and the name with which a kubelet registers.
func TestNetworkEnvironment(t *testing.T) {
	const v4, v6 = "192.168.7.9", "fd00:7::9"
	addresses := map[string][]string{"v4": {v4 + "/24"}, "v6": {v6 + "/64"}, "both": {v4 + "/24", v6 + "/64"}, "none": nil}
	for _, c := range []struct {
		family, network string
		want            string // empty: it fails
	}{
		{"", "v4", v4}, {"", "both", v4}, {"", "v6", ""}, {"", "none", ""},
		{"IPv4", "both", v4}, {"IPv4", "v6", ""},
		{"IPv6", "both", v6}, {"IPv6", "v6", v6}, {"IPv6", "v4", ""}, {"IPv6", "none", ""},
		{"IPv4+IPv6", "both", v4 + "," + v6}, {"IPv4+IPv6", "v6", ""}, {"IPv4+IPv6", "none", ""},
		{"IPv6+IPv4", "both", v6 + "," + v4}, {"IPv6+IPv4", "v4", ""}, {"IPv6+IPv4", "none", ""},
	} {
		t.Run(fmt.Sprintf("%s with %s", c.family, c.network), func(t *testing.T) {
			parallel(t)
			r := withScripts(t, scenarios[0].with(func(s *scenario) { s.family = c.family }))
			r.net.uplink(t, addresses[c.network]...)
			r.write("/etc/machine-name", machineName, 0o600)
			got := r.run(nil, "/opt/bin/setup_net_env.sh")
			if c.want == "" {
				family := c.family
				if family == "" {
					family = "IPv4"
				}
				if got.status == 0 || !strings.Contains(got.output, "no address of the family "+family) {
					t.Errorf("status %d and %q, want a failure that names the family", got.status, got.output)
				}
				if r.exists("/etc/kubernetes/nodeip.conf") {
					t.Errorf("nodeip.conf is there: %q", r.read("/etc/kubernetes/nodeip.conf"))
				}
				return
			}
			want := "KUBELET_NODE_IP=" + c.want + "\nKUBELET_HOSTNAME=" + machineName + "\n"
			if got.status != 0 || r.read("/etc/kubernetes/nodeip.conf") != want {
				t.Errorf("status %d, %q, want %q", got.status, got.output, want)
			}
		})
	}
}

// TestHostname: a machine's name comes before what the metadata of Flatcar says,
// and that before the name of the host.
func TestHostname(t *testing.T) {
	flatcar := slices.IndexFunc(scenarios, func(s scenario) bool { return s.profile == "osp-flatcar" })
	for name, c := range map[string]struct {
		machineName, metadata string
		want                  string
	}{
		"the host's name with its domain":   {"", "", "host-1.zone.test"},
		"Flatcar's metadata":                {"", "ip-10-0-0-1.ec2.internal", "ip-10-0-0-1.ec2.internal"},
		"the machine's name":                {machineName, "ip-10-0-0-1.ec2.internal", machineName},
		"the machine's name, with its line": {machineName + "\n", "", machineName},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			r := withScripts(t, scenarios[flatcar].with(func(s *scenario) { s.family = "IPv4" }))
			r.net.uplink(t, nodeAddress+"/24")
			r.write("/etc/hostname", "host-1\n", 0o644)
			r.write("/etc/hosts", nodeAddress+" host-1.zone.test host-1\n", 0o644)
			if c.machineName != "" {
				r.write("/etc/machine-name", c.machineName, 0o600)
			}
			script := "/opt/bin/setup_net_env.sh"
			if c.metadata != "" {
				script = "mkdir -p /run/metadata && echo COREOS_EC2_HOSTNAME=" + c.metadata + " >/run/metadata/flatcar && " + script
			}
			got := r.run(nil, "/bin/bash", "-c", script)
			want := "KUBELET_NODE_IP=" + nodeAddress + "\nKUBELET_HOSTNAME=" + c.want + "\n"
			if got.status != 0 || r.read("/etc/kubernetes/nodeip.conf") != want {
				t.Errorf("status %d, %q, nodeip.conf %q, want %q", got.status, got.output, r.read("/etc/kubernetes/nodeip.conf"), want)
			}
		})
	}
}

// withScripts is a node with the files of the provisioning stage, on which nothing
// has run, without an address.
func withScripts(t *testing.T, s scenario) *node {
	t.Helper()
	needNodes(t)
	in, out := s.rendered(t)
	n := newNode(t, images[string(in.Pool.OperatingSystem)])
	n.mu.Lock()
	defer n.mu.Unlock()
	if strings.HasPrefix(string(out.Provisioning), "{") {
		n.must(applyIgnition(n, out.Provisioning))
		n.must(os.RemoveAll(n.path("/etc/machine-name")))
		return n
	}
	config, err := nodefixture.Parse(out.Provisioning)
	n.must(err)
	n.must(writeFiles(n, config.Files))
	return n
}
