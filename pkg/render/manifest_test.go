package render_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

// shippedProfiles are the names of the profiles that we ship.
func shippedProfiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../profiles/osp-*.yaml")
	if err != nil || len(files) != 6 {
		t.Fatalf("found %d profiles, error %v", len(files), err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names
}

// shippedInput is a pool of one of them.
func shippedInput(t *testing.T, name string) render.Input {
	t.Helper()
	in := ourInput(t, name)
	spec := in.Profile.Spec
	in.Pool.CloudProvider = spec.SupportedCloudProviders[0].Name
	in.Pool.OperatingSystemSpec = render.OperatingSystemSpec{}
	in.Settings.NodeHTTPProxy, in.Settings.NodeNoProxy = "http://proxy.test:3128", "localhost"
	in.Settings.RegistryCredentials = nil
	switch spec.OSName {
	case osm.OperatingSystemFlatcar:
		in.Pool.OperatingSystemSpec.Flatcar = &render.FlatcarSpec{ProvisioningUtility: spec.ProvisioningUtility, DisableLocksmithD: true}
	case osm.OperatingSystemRHEL:
		in.Pool.OperatingSystemSpec.RHEL = &render.RHELSpec{}
	}
	return in
}

// withCredentials puts a word into every place that has a credential.
func withCredentials(in render.Input, word string) render.Input {
	userInfo := "node:" + word + "@"
	in.Settings.NodeHTTPProxy, in.Settings.NodeNoProxy = "http://"+userInfo+"proxy.test:3128", "localhost,http://"+userInfo+"none.test"
	in.Settings.NodeRegistryMirrors = "https://" + userInfo + "hub.test"
	in.Settings.DownloadMirrors = map[string]string{"cni": "https://" + userInfo + "cni.test", "kubernetes": "https://" + userInfo + "k8s.test"}
	in.Settings.RegistryCredentials = map[string]render.RegistryCredential{"registry.test": {Username: "node", Password: word}}
	config := "[Global]\npassword = \"" + word + "\"\n"
	in.Pool.OverwriteCloudConfig = &config
	if in.Pool.OperatingSystemSpec.RHEL != nil {
		in.Pool.OperatingSystemSpec.RHEL = &render.RHELSpec{RHELSubscriptionManagerUser: word, RHELSubscriptionManagerPassword: word, RHELOrganizationName: word}
	}
	in.Cluster.APIServerToken, in.Cluster.BootstrapToken = word, "abcdef."+word
	return in
}

// onDisk returns what programs that read the two documents write: "MODE CONTENT" by path. The
// document of the second stage is read last, if it is read at all.
func onDisk(t *testing.T, in render.Input, out *render.Output) map[string]string {
	t.Helper()
	read := readCloudConfig
	if strings.HasPrefix(string(out.Bootstrap), "{") {
		read = readIgnitionDocument
	}
	all := map[string]string{}
	for _, doc := range [][]byte{out.Bootstrap, out.Provisioning} {
		files, units := read(t, doc)
		maps.Copy(all, files)
		for path, content := range units {
			all[path] = "0644 " + content
		}
	}
	return all
}

// TestManifestIsWhatIsOnDisk: for all profiles that we ship, without credentials and with them.
func TestManifestIsWhatIsOnDisk(t *testing.T) {
	engine := render.NewEngine()
	for _, name := range shippedProfiles(t) {
		for _, version := range []string{"", "2.3.0"} {
			for _, word := range []string{"", "canary-a"} {
				if version != "" && name != "osp-flatcar" {
					continue
				}
				t.Run(strings.Trim(name+" "+version+" "+word, " "), func(t *testing.T) {
					in := shippedInput(t, name)
					in.Pool.IgnitionVersion = version
					if word != "" {
						in = withCredentials(in, word)
					}
					out, err := engine.Render(in)
					if err != nil {
						t.Fatal(err)
					}
					m, ok, err := render.ManifestOf(&out.OSC)
					if err != nil || !ok {
						t.Fatalf("found %t, error %v", ok, err)
					}
					if m.Config != render.ShortDigest(in.InputDigest()) {
						t.Errorf("it is of the configuration %s", m.Config)
					}
					disk := onDisk(t, in, out)
					if !strings.HasSuffix(disk[manifest.Path], " "+m.Encode()) {
						t.Errorf("the node's manifest is another:\n%s", disk[manifest.Path])
					}
					delete(disk, manifest.Path)
					want, got := map[string]string{}, map[string]string{}
					for path, text := range disk {
						mode, content, _ := strings.Cut(text, " ")
						f, ok := m.FileAt(path)
						switch sum := sha256.Sum256([]byte(content)); {
						case m.IsMutable(path):
							continue
						case ok && f.Digest == "":
							want[path] = mode + " present"
						default:
							want[path] = mode + " " + hex.EncodeToString(sum[:])
						}
					}
					for _, f := range m.Files {
						got[f.Path] = fmt.Sprintf("%04o %s", f.Mode, f.Digest)
						if f.Digest == "" {
							got[f.Path] += "present"
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("on disk -, in the manifest +:\n%s", diff)
					}
				})
			}
		}
	}
}

// present returns the files of a manifest whose content is not in it.
func present(m manifest.Manifest) []string {
	var paths []string
	for _, f := range m.Files {
		if f.Digest == "" {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// TestManifestAndCredentials: a manifest tells nothing about credentials, and only the content of
// files with a credential is missing in it.
func TestManifestAndCredentials(t *testing.T) {
	engine := render.NewEngine()
	for _, name := range shippedProfiles(t) {
		t.Run(name, func(t *testing.T) {
			texts := map[string]bool{}
			var last *render.Output
			for _, word := range []string{"canary-a", "canary-b", "placeholder", "place-taker"} {
				out, err := engine.Render(withCredentials(shippedInput(t, name), word))
				if err != nil {
					t.Fatal(err)
				}
				m, _, _ := render.ManifestOf(&out.OSC)
				texts[m.Encode()] = true
				last = out
			}
			if len(texts) != 1 {
				t.Errorf("credentials change the manifest: %d texts", len(texts))
			}
			a := onDisk(t, shippedInput(t, name), last)
			in := withCredentials(shippedInput(t, name), "canary-c")
			out, err := engine.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			b := onDisk(t, in, out)
			var differ []string
			for path := range a {
				if a[path] != b[path] || path == "/etc/machine-name" || path == "/opt/bin/supervise.sh" {
					differ = append(differ, path)
				}
			}
			slices.Sort(differ)
			m, _, _ := render.ManifestOf(&out.OSC)
			if diff := cmp.Diff(differ, present(m)); diff != "" {
				t.Errorf("with a credential -, present +:\n%s", diff)
			}
			plain, err := engine.Render(shippedInput(t, name))
			if err != nil {
				t.Fatal(err)
			}
			m, _, _ = render.ManifestOf(&plain.OSC)
			if paths := present(m); len(paths) > 4 || slices.Contains(paths, "/etc/containerd/config.toml") {
				t.Errorf("without credentials these are present: %q", paths)
			}
		})
	}
}

// TestManifestIsReproduced: the record of a configuration renders to the same manifest.
func TestManifestIsReproduced(t *testing.T) {
	engine := render.NewEngine()
	for _, name := range shippedProfiles(t) {
		in := withCredentials(shippedInput(t, name), "canary")
		out, err := engine.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := out.Record.RebuildInput(in.Profile.Spec, in.Profile.Digest, in.RedactedSettingsJSON())
		if err != nil {
			t.Fatal(err)
		}
		again.Cluster.APIServerToken, again.Cluster.BootstrapToken = in.Cluster.APIServerToken, in.Cluster.BootstrapToken
		reproduced, err := engine.Render(again)
		if err != nil {
			t.Fatal(err)
		}
		if reproduced.Record.Digests != out.Record.Digests {
			t.Errorf("%s: digests %+v, want %+v", name, reproduced.Record.Digests, out.Record.Digests)
		}
		for what, config := range map[string]func(render.Input) (osm.OperatingSystemConfigSpec, error){"RenderConfig": engine.RenderConfig} {
			osc, err := config(in)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := render.ManifestOf(&osc)
			want, _, _ := render.ManifestOf(&out.OSC)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s: %s", what, name, diff)
			}
		}
		node, err := engine.RenderNode(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range slices.Concat(node.Bootstrap.Files, node.Provisioning.Files) {
			if want, _, _ := render.ManifestOf(&out.OSC); f.Path == manifest.Path && f.Content != want.Encode() {
				t.Errorf("RenderNode of %s: %s", name, f.Content)
			}
		}
	}
}

// TestManifestEntries: what is in a manifest of a profile of one's own.
func TestManifestEntries(t *testing.T) {
	file := func(path, data string) osm.File {
		return osm.File{Path: path, Permissions: 640, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}}
	}
	const header = "osm-gitops-manifest 1 {{ .Provenance.ConfigDigest }}\n"
	yes, no, content := true, false, "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
	base := osm.OperatingSystemProfileSpec{
		OSName: "ubuntu", OSVersion: "1", Version: "v1.0.0", SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "azure"}},
		BootstrapConfig: osm.OSPConfig{Files: []osm.File{
			file("/etc/both", "first"), file("/etc/name", "I am <MACHINE_NAME>"), file("/etc/token", "{{ .Token }}"), file("/etc//x/../clean", ""),
		}},
		ProvisioningConfig: osm.OSPConfig{
			Files: []osm.File{
				file("/etc/both", "second"), file("/etc/\"quoted\"", ""), file("/etc/kept", "<MACHINE_NAME>"), file("/etc/mine", ""), file("/etc/below/a", ""),
				file("/etc/systemd/system/a.service", ""), file("/etc/systemd/system/b.service.d/x.conf", ""), file("/etc/systemd/system/gone.service", ""),
				file(render.MutablePathsFile, "# a comment\n\n/etc/mine\n/etc/below/*\n/etc/systemd/system/gone.service\n"),
				file(manifest.Path, header+manifest.Marker+"\nunit enabled b.service\nmutable /etc/other\n"),
			},
			Units: []osm.Unit{
				{Name: "c.service", Enable: &yes, Content: &content, DropIns: []osm.DropIn{{Name: "y.conf", Content: "[Unit]\n"}}},
				{Name: "d.service", Mask: &yes}, {Name: "e.service", Enable: &no},
			},
		},
	}
	in := render.Input{
		Profile: render.Profile{Spec: base},
		Pool:    render.Pool{Name: "p", Namespace: "n", CloudProvider: "azure", OperatingSystem: "ubuntu", KubeletVersion: "v1.35.0"},
		Cluster: render.Cluster{APIServerToken: "real"},
	}
	flatcar := base
	flatcar.OSName, flatcar.ProvisioningUtility = "flatcar", "ignition"
	sum := func(s string) string {
		d := sha256.Sum256([]byte(s))
		return hex.EncodeToString(d[:])
	}
	for name, c := range map[string]struct {
		spec         osm.OperatingSystemProfileSpec
		masked, more string
		units        []string
	}{
		"cloud-init": {base, "file " + sum("") + " 0644 root:root /etc/systemd/system/d.service", "file " + sum("[Unit]\nWants=c.service\n") + " 0644 root:root /etc/systemd/system/multi-user.target.d/10-c.service.conf",
			[]string{"unit - a.service", "unit enabled b.service", "unit - c.service", "unit masked d.service", "unit - e.service", "unit - multi-user.target"}},
		"Ignition": {flatcar, "", "", []string{"unit - a.service", "unit enabled b.service", "unit enabled c.service", "unit masked d.service", "unit disabled e.service"}},
	} {
		in := in
		in.Profile.Spec, in.Pool.OperatingSystem = c.spec, c.spec.OSName
		out, err := render.NewEngine().Render(in)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := render.ManifestOf(&out.OSC)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"osm-gitops-manifest 1 " + render.ShortDigest(in.InputDigest()),
			"file " + sum("second") + " 0640 root:root /etc/both",
			"file " + sum("") + " 0640 root:root /etc/clean",
			"file " + sum(out.OSC.ProvisioningConfig.Files[len(base.ProvisioningConfig.Files)].Content.Inline.Data) + " 0600 root:root /etc/containerd/certs.d/docker.io/hosts.toml",
			"file " + sum("<MACHINE_NAME>") + " 0640 root:root /etc/kept",
			"file present 0600 root:root /etc/machine-name",
			"file present 0640 root:root /etc/name",
			"file " + sum("# a comment\n\n/etc/mine\n/etc/below/*\n/etc/systemd/system/gone.service\n") + " 0640 root:root " + render.MutablePathsFile,
			"file " + sum("") + " 0640 root:root /etc/systemd/system/a.service",
			"file " + sum("") + " 0640 root:root /etc/systemd/system/b.service.d/x.conf",
			"file " + sum(content) + " 0644 root:root /etc/systemd/system/c.service",
			"file " + sum("[Unit]\n") + " 0644 root:root /etc/systemd/system/c.service.d/y.conf",
			c.masked, c.more,
			"file present 0640 root:root /etc/token",
			"mutable /etc/below/*", "mutable /etc/mine", "mutable /etc/other", "mutable /etc/systemd/system/gone.service",
		}
		want = append(slices.DeleteFunc(want, func(s string) bool { return s == "" }), c.units...)
		if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(m.Encode(), "\n"), "\n")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}

	// A text without the marker stays, and what cannot be read is an error at its file.
	for name, c := range map[string]struct{ path, data, want string }{
		"no marker":   {manifest.Path, "mine\n", ""},
		"no header":   {manifest.Path, manifest.Marker + "\n", "line 1 of the manifest"},
		"other line":  {manifest.Path, header + manifest.Marker + "\nfolder /etc\n", "line 3 of the manifest"},
		"no path":     {render.MutablePathsFile, "/etc/a\netc/b\n", `line 2: "etc/b" is not an absolute path`},
		"parent path": {render.MutablePathsFile, "/etc/../a\n", "is not an absolute path"},
	} {
		in := in
		files := slices.Clone(base.ProvisioningConfig.Files)
		at := slices.IndexFunc(files, func(f osm.File) bool { return f.Path == c.path })
		files[at] = file(c.path, c.data)
		in.Profile.Spec.ProvisioningConfig.Files = files
		out, err := render.NewEngine().Render(in)
		if c.want == "" {
			if err != nil || out.OSC.ProvisioningConfig.Files[at].Content.Inline.Data != c.data {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fmt.Sprintf("files[%d]", at)) {
			t.Errorf("%s: error %v, want %q at files[%d]", name, err, c.want, at)
		}
	}
	in.Profile.Spec.BootstrapConfig.Files = append(slices.Clone(base.BootstrapConfig.Files), file(manifest.Path, header+manifest.Marker+"\n"))
	if _, err := render.NewEngine().Render(in); err == nil || !strings.Contains(err.Error(), "bootstrapConfig.files[4]") || !strings.Contains(err.Error(), "move it to provisioningConfig") {
		t.Errorf("in the bootstrap stage: error %v", err)
	}
}
