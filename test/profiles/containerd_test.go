package profiles_test

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// installs finds the version of containerd that a script installs: in a variable next to the other
// versions, or in the name of the package.
var installs = regexp.MustCompile(`CONTAINERD_VERSION=["']?([0-9]+)\.|containerd(?:\.io)?[=-]([0-9]+)\.`)

// formats are the majors of containerd for which each format of config.toml is made:
// https://github.com/containerd/containerd/blob/main/docs/PLUGINS.md
var formats = map[int]string{2: "1", 3: "2"}

type containerdConfig struct {
	Version int `toml:"version"`
	Plugins map[string]struct {
		PinnedImages struct {
			Sandbox string `toml:"sandbox"`
		} `toml:"pinned_images"`
		Sandbox  string `toml:"sandbox_image"` // of format 2
		Registry struct {
			ConfigPath string         `toml:"config_path"`
			Configs    map[string]any `toml:"configs"`
		} `toml:"registry"`
	} `toml:"plugins"`
}

// TestContainerd: config.toml is TOML, the installed containerd can read its format, and it points
// to the folder of the hosts.toml files.
func TestContainerd(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		node := r.node()
		var config containerdConfig
		if _, err := toml.Decode(node["/etc/containerd/config.toml"].content, &config); err != nil {
			out.add("/etc/containerd/config.toml: "+err.Error(), r.name)
			continue
		}
		// Flatcar's image brings containerd; the others install it.
		major := "2"
		if !r.coreOS() {
			major = containerdMajor(node)
		}
		if formats[config.Version] != major {
			out.add(fmt.Sprintf("/etc/containerd/config.toml has format %d, and containerd %q is installed", config.Version, major), r.name)
		}
		images := config.Plugins["io.containerd.cri.v1.images"]
		pause := images.PinnedImages.Sandbox
		if config.Version == 2 {
			images = config.Plugins["io.containerd.grpc.v1.cri"]
			pause = images.Sandbox
		}
		if images.Registry.ConfigPath != "/etc/containerd/certs.d" {
			out.add(fmt.Sprintf("/etc/containerd/config.toml looks for registries in %q", images.Registry.ConfigPath), r.name)
		}
		if pause != r.in.Settings.PauseImage {
			out.add(fmt.Sprintf("/etc/containerd/config.toml has the pause image %q, want %q", pause, r.in.Settings.PauseImage), r.name)
		}
		if got, want := slices.Sorted(maps.Keys(images.Registry.Configs)), slices.Sorted(maps.Keys(r.in.Settings.RegistryCredentials)); !slices.Equal(got, want) {
			out.add(fmt.Sprintf("/etc/containerd/config.toml has credentials of %v, want %v", got, want), r.name)
		}
	}
	out.fail(t)
}

// containerdMajor is the major version of containerd that a node's scripts install.
func containerdMajor(node map[string]file) string {
	var found string
	for _, f := range node {
		if m := installs.FindStringSubmatch(f.content); m != nil && shell.MatchString(f.content) {
			found = m[1] + m[2]
		}
	}
	return found
}

// registryHosts are the hosts.toml files of each value of the dimension: the hosts
// in their order.
var registryHosts = map[string]map[string][]string{
	"none":        {"docker.io": {"https://registry-1.docker.io"}},
	"credentials": {"docker.io": {"https://registry-1.docker.io"}},
	"mirrors": {"docker.io": {"https://hub.example.com"}, "quay.io": {"https://quay.example.com"},
		"registry.k8s.io": {"https://k8s.example.com/v2"}, "_default": {"https://node:" + matrix.MirrorPassword + "@any.example.com"}},
	"insecure": {"docker.io": {"https://registry-1.docker.io"}, "10.0.0.1:5000": {"10.0.0.1:5000"}},
}

// TestHosts: every registry has its hosts.toml, which is TOML.
func TestHosts(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		got := map[string][]string{}
		for name, f := range r.node() {
			rest, ok := strings.CutPrefix(name, "/etc/containerd/certs.d/")
			if !ok {
				continue
			}
			var config struct {
				Server string `toml:"server"`
				Host   map[string]struct {
					Capabilities []string `toml:"capabilities"`
					SkipVerify   bool     `toml:"skip_verify"`
					OverridePath bool     `toml:"override_path"`
				} `toml:"host"`
			}
			meta, err := toml.Decode(f.content, &config)
			if err != nil || len(meta.Undecoded()) > 0 {
				out.add(fmt.Sprintf("%s: %v, and unknown keys %v", name, err, meta.Undecoded()), r.name)
				continue
			}
			got[path.Dir(rest)] = slices.Sorted(maps.Keys(config.Host))
			for url, host := range config.Host {
				if !slices.Equal(host.Capabilities, []string{"pull", "resolve"}) || host.SkipVerify != (r.values[matrix.Registries] == "insecure") {
					out.add(fmt.Sprintf("%s: host %q is %+v", name, url, host), r.name)
				}
			}
		}
		if diff := cmp.Diff(registryHosts[r.values[matrix.Registries]], got); diff != "" {
			out.add("/etc/containerd/certs.d (-want +got):\n"+diff, r.name)
		}
	}
	out.fail(t)
}

// TestCrictl: crictl finds containerd.
func TestCrictl(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		var got map[string]string
		if err := yaml.Unmarshal([]byte(r.node()["/etc/crictl.yaml"].content), &got); err != nil {
			out.add("/etc/crictl.yaml: "+err.Error(), r.name)
		}
		if diff := cmp.Diff(map[string]string{"runtime-endpoint": "unix:///run/containerd/containerd.sock"}, got); diff != "" {
			out.add("/etc/crictl.yaml (-want +got):\n"+diff, r.name)
		}
	}
	out.fail(t)
}
