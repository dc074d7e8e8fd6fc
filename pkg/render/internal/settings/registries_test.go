package settings

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// The files that operating-system-manager writes for mirrors and insecure registries.
func TestHostsFiles(t *testing.T) {
	const hub = "server = \"https://registry-1.docker.io\"\n\n[host.\"https://registry-1.docker.io\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
	host := func(server, url string, more ...string) string {
		text := "[host.\"" + url + "\"]\ncapabilities = [\"pull\", \"resolve\"]\n" + strings.Join(more, "")
		if server != "" {
			text = "server = \"" + server + "\"\n\n" + text
		}
		return text
	}
	const skip, override = "skip_verify = true\n", "override_path = true\n"
	tests := map[string]struct {
		repeatable []string
		mirrors    string
		insecure   string
		want       map[string]string // in addition to docker.io with its usual content
	}{
		"nothing":                           {},
		"an insecure registry":              {insecure: "10.0.0.1:5000", want: map[string]string{"10.0.0.1:5000": host("10.0.0.1:5000", "10.0.0.1:5000", skip)}},
		"an insecure docker.io":             {insecure: " docker.io ,", want: map[string]string{"docker.io": hub + skip}},
		"an insecure *":                     {insecure: "*", want: map[string]string{"_default": host("", "", skip)}},
		"override_path":                     {repeatable: []string{"reg.tld=https://o.tld?kubermatic=override_path%3Dtrue"}, want: map[string]string{"reg.tld": host("reg.tld", "https://o.tld", override)}},
		"other parameters stay, sorted":     {repeatable: []string{"r=https://m/x?b=1&kubermatic=override_path%3Dtrue&a=2"}, want: map[string]string{"r": host("r", "https://m/x?a=2&b=1", override)}},
		"an option that is none":            {repeatable: []string{"r=https://m?kubermatic=override_path%3Dmaybe"}, want: map[string]string{"r": host("r", "https://m")}},
		"an @ in the path":                  {repeatable: []string{"r=https://m/a@b?kubermatic=override_path%3Dtrue"}, want: map[string]string{"r": host("r", "https://m/a@b", override)}},
		"a URL without options is verbatim": {repeatable: []string{"r=https://m/x?b=1&a=2"}, want: map[string]string{"r": host("r", "https://m/x?b=1&a=2")}},
		"no scheme is added":                {repeatable: []string{"reg.tld=mirror.example.com"}, want: map[string]string{"reg.tld": host("reg.tld", "mirror.example.com")}},
		"by the comma flag it is":           {mirrors: "quay.io=example.net", want: map[string]string{"quay.io": host("quay.io", "https://example.net")}},
		"a mirror of an insecure one":       {repeatable: []string{"i=https://m"}, insecure: "i", want: map[string]string{"i": host("i", "https://m", skip)}},
		"a mirror replaces docker.io's":     {mirrors: " a.example.com , gcr.io=b.example.com/path ", want: map[string]string{"docker.io": host("https://registry-1.docker.io", "https://a.example.com"), "gcr.io": host("gcr.io", "https://b.example.com/path")}},
		"* is _default":                     {repeatable: []string{"*=https://any.example.com"}, want: map[string]string{"_default": host("", "https://any.example.com")}},
		"mirrors keep their order":          {repeatable: []string{"r=https://z", "r=https://a"}, mirrors: "r=https://m", want: map[string]string{"r": host("r", "https://z") + host("", "https://a") + host("", "https://m")}},
		"a mirror given twice stands once":  {repeatable: []string{"r=https://z", "r=https://a", "r=https://z"}, want: map[string]string{"r": host("r", "https://z") + host("", "https://a")}},
		"the path stays in server":          {repeatable: []string{"r.tld/sub=https://m"}, want: map[string]string{"r.tld": host("r.tld/sub", "https://m")}},
		"a path of docker.io is docker.io":  {repeatable: []string{"docker.io/library=https://m"}, want: map[string]string{"docker.io": host("https://registry-1.docker.io", "https://m")}},
		"no mirror":                         {repeatable: []string{"x.io="}, want: map[string]string{"x.io": host("x.io", "")}},
		"no mirror, by the comma flag":      {mirrors: "x.io=", want: map[string]string{"x.io": host("x.io", "https://")}},
		"no registry":                       {repeatable: []string{"=https://k"}, want: map[string]string{"": host("", "https://k")}},
		"no registry, by the comma flag":    {mirrors: "=https://k", want: map[string]string{"docker.io": host("https://registry-1.docker.io", "https://=https://k")}},
		"a registry that is a URL":          {repeatable: []string{"https://x.io=https://k"}, want: map[string]string{"https:": host("https://x.io", "https://k")}},
		"mirrors that are no hosts":         {repeatable: []string{"x.io=https://bad host", "x.io=https://h:port", "x.io=https://u:p%x@h", "x.io=https://h\n"}, want: map[string]string{"x.io": host("x.io", "https://bad host") + host("", "https://h:port") + host("", "https://u:p%x@h") + host("", `https://h\u000a`)}},
		"of one host the last counts":       {repeatable: []string{"r.tld/b=https://b", "r.tld/a=https://a"}, insecure: "r.tld", want: map[string]string{"r.tld": host("r.tld/b", "https://b")}},
		"_default counts before *":          {repeatable: []string{"*=https://star", "_default=https://m"}, insecure: "*", want: map[string]string{"_default": host("", "https://m")}},
		"a path of docker.io counts":        {repeatable: []string{"docker.io=https://a"}, insecure: "docker.io/x", want: map[string]string{"docker.io": hub + skip}},
		"odd characters":                    {repeatable: []string{`a"b=https://m/\x`}, want: map[string]string{`a"b`: "server = \"a\\\"b\"\n\n[host.\"https://m/\\\\x\"]\ncapabilities = [\"pull\", \"resolve\"]\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := Settings{NodeContainerdRegistryMirrors: test.repeatable, NodeRegistryMirrors: test.mirrors, NodeInsecureRegistries: test.insecure}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"docker.io": hub}
			for dir, text := range test.want {
				want[dir] = text
			}
			got, last := map[string]string{}, ""
			for _, f := range s.HostsFiles() {
				if f.Path <= last || f.Permissions != 600 || f.Content.Inline.Encoding != "" {
					t.Errorf("file %+v after %q: out of order, or with other permissions or encoding", f, last)
				}
				last = f.Path
				got[strings.TrimSuffix(strings.TrimPrefix(f.Path, "/etc/containerd/certs.d/"), "/hosts.toml")] = f.Content.Inline.Data
				if err := toml.Unmarshal([]byte(f.Content.Inline.Data), &map[string]any{}); err != nil {
					t.Errorf("%s: %v", f.Path, err)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		settings Settings
		want     []string
	}{
		"nothing set":           {},
		"a mirror without =":    {Settings{NodeContainerdRegistryMirrors: []string{"quay.io"}}, []string{"-node-containerd-registry-mirrors: write it as registry=url"}},
		"without its registry":  {Settings{NodeContainerdRegistryMirrors: []string{"https://user:canary=@m"}}, []string{"write it as registry=url"}},
		"a user for a registry": {Settings{NodeContainerdRegistryMirrors: []string{"user:canary@r=https://m"}}, []string{"write it as registry=url"}},
		"mirrors that are no URLs": {Settings{NodeContainerdRegistryMirrors: []string{"a=https://user:canary=@[::1?kubermatic=x", "b=https://user:1#canary@m?kubermatic=x"}, NodeRegistryMirrors: "http://%zz,x.io=https://bad host,y.io:5000=https://m"},
			[]string{`mirror of "docker.io": its address is not a URL`, `mirror of "x.io": its address is not a URL`, `mirror of "docker.io": its address is not a URL`, `mirror of "a": its address has the parameter "kubermatic" but is not a URL`, `mirror of "b": its address has the parameter "kubermatic" but is not a URL`}},
		"a parameter that is none": {Settings{NodeContainerdRegistryMirrors: []string{"a=https://m?kubermatic=%25zz"}}, []string{"is not a query string"}},
		"DNS":                      {Settings{ClusterDNS: []string{"10.0.0.1", "::1", "dns.local", "10.0.0.256"}}, []string{`-cluster-dns: "dns.local"`, `"10.0.0.256"`}},
		"a runtime":                {Settings{ContainerRuntime: "docker"}, []string{`-container-runtime: "docker" is not supported`}},
		"a proxy in Latin-1":       {Settings{NodeHTTPProxy: "http://user:canary\xe4@proxy"}, []string{"-node-http-proxy: the value is not UTF-8 text"}},
		"a proxy with a zero byte": {Settings{NodeHTTPProxy: "http://user:canary\x00@proxy"}, []string{"-node-http-proxy: the value is not UTF-8 text"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			problems := invalid.Problems(test.settings.Validate())
			if len(problems) != len(test.want) {
				t.Fatalf("problems %v, want %q", problems, test.want)
			}
			for i, want := range test.want {
				got := problems[i].Error()
				if !strings.Contains(got, want) || strings.Contains(got, "canary") {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		})
	}
}

// The text of config.toml, to the byte.
func TestContainerdConfig(t *testing.T) {
	s := Settings{PauseImage: "pause:3.10", DeviceOwnershipFromSecurityContext: true, RegistryCredentials: map[string]RegistryCredential{
		"https://index.docker.io/v1/": {Auth: "YTpi"}, "reg:5000": {Username: "u", Password: `p"w`}, "reg.example.com/sub": {IdentityToken: "t"},
	}}
	got, err := s.ContainerdConfig()
	if err != nil {
		t.Fatal(err)
	}
	want := `version = 3

[metrics]
address = "127.0.0.1:1338"

[plugins]
[plugins."io.containerd.cri.v1.images"]
discard_unpacked_layers = false
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "pause:3.10"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.images".registry.configs]
[plugins."io.containerd.cri.v1.images".registry.configs."index.docker.io"]
[plugins."io.containerd.cri.v1.images".registry.configs."index.docker.io".auth]
auth = "YTpi"
[plugins."io.containerd.cri.v1.images".registry.configs."reg.example.com/sub"]
[plugins."io.containerd.cri.v1.images".registry.configs."reg.example.com/sub".auth]
identitytoken = "t"
[plugins."io.containerd.cri.v1.images".registry.configs."reg:5000"]
[plugins."io.containerd.cri.v1.images".registry.configs."reg:5000".auth]
username = "u"
password = "p\"w"
[plugins."io.containerd.cri.v1.runtime"]
device_ownership_from_security_context = true
[plugins."io.containerd.cri.v1.runtime".containerd]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
