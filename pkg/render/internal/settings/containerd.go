package settings

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/BurntSushi/toml"
)

// containerdConfig is containerd's config.toml, format 3 (containerd 2.x):
// https://github.com/containerd/containerd/blob/main/docs/man/containerd-config.toml.5.md
// The order of the fields is the order of the text.
type containerdConfig struct {
	Version int `toml:"version"`
	Metrics struct {
		Address string `toml:"address"`
	} `toml:"metrics"`
	Plugins struct {
		Images  criImages  `toml:"io.containerd.cri.v1.images"`
		Runtime criRuntime `toml:"io.containerd.cri.v1.runtime"`
	} `toml:"plugins"`
}

type criImages struct {
	DiscardUnpackedLayers bool          `toml:"discard_unpacked_layers"`
	PinnedImages          *pinnedImages `toml:"pinned_images"`
	Registry              criRegistry   `toml:"registry"`
}

type pinnedImages struct {
	Sandbox string `toml:"sandbox"`
}

type criRegistry struct {
	ConfigPath string                       `toml:"config_path"`
	Configs    map[string]criRegistryConfig `toml:"configs,omitempty"`
}

type criRegistryConfig struct {
	Auth criAuth `toml:"auth"`
}

type criAuth struct {
	Username      string `toml:"username,omitempty"`
	Password      string `toml:"password,omitempty"`
	Auth          string `toml:"auth,omitempty"`
	IdentityToken string `toml:"identitytoken,omitempty"`
}

type criRuntime struct {
	DeviceOwnership bool `toml:"device_ownership_from_security_context"`
	Containerd      struct {
		Runtimes struct {
			Runc struct {
				RuntimeType string `toml:"runtime_type"`
				Options     struct {
					SystemdCgroup bool `toml:"SystemdCgroup"`
				} `toml:"options"`
			} `toml:"runc"`
		} `toml:"runtimes"`
	} `toml:"containerd"`
	CNI struct {
		BinDirs []string `toml:"bin_dirs"`
		ConfDir string   `toml:"conf_dir"`
	} `toml:"cni"`
}

// ContainerdConfig returns the text of config.toml.
func (s Settings) ContainerdConfig() (string, error) {
	c := containerdConfig{Version: 3}
	c.Metrics.Address = "127.0.0.1:1338"
	images := &c.Plugins.Images
	if s.PauseImage != "" {
		images.PinnedImages = &pinnedImages{Sandbox: s.PauseImage}
	}
	images.Registry.ConfigPath = "/etc/containerd/certs.d"
	images.Registry.Configs = s.registryAuth()
	rt := &c.Plugins.Runtime
	rt.DeviceOwnership = s.DeviceOwnershipFromSecurityContext
	rt.Containerd.Runtimes.Runc.RuntimeType = "io.containerd.runc.v2"
	rt.Containerd.Runtimes.Runc.Options.SystemdCgroup = true
	rt.CNI.BinDirs = []string{"/opt/cni/bin"}
	rt.CNI.ConfDir = "/etc/cni/net.d"

	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	if err := enc.Encode(c); err != nil {
		return "", fmt.Errorf("encoding containerd's config.toml: %w", err)
	}
	return b.String(), nil
}

// registryAuth returns the credentials under the names of config.toml. If two names have the
// same host, the last counts.
func (s Settings) registryAuth() map[string]criRegistryConfig {
	if len(s.RegistryCredentials) == 0 {
		return nil
	}
	out := make(map[string]criRegistryConfig, len(s.RegistryCredentials))
	for _, name := range slices.Sorted(maps.Keys(s.RegistryCredentials)) {
		out[hostIfURL(name)] = criRegistryConfig{Auth: criAuth(s.RegistryCredentials[name])}
	}
	return out
}

// hostIfURL returns the host of a name that is a URL, otherwise the name itself.
func hostIfURL(name string) string {
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		return u.Host
	}
	return name
}
