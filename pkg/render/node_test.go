package render_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TestNodeIsWhatTheDocumentsHold compares the result of Node with what parsers of the documents
// find: files by path with mode and content, units with content.
func TestNodeIsWhatTheDocumentsHold(t *testing.T) {
	file := func(path string, mode int32, encoding, data string) osm.File {
		return osm.File{Path: path, Permissions: mode, Content: osm.FileContent{Inline: &osm.FileContentInline{Encoding: encoding, Data: data}}}
	}
	yes, content := true, "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
	stage := osm.OSPConfig{
		Files: []osm.File{
			file("/etc/a", 600, "b64", "token {{ .Token }}\n"), file("/etc/b", 755, "", "#!/bin/sh\n\techo \"ü\"\n"),
			file("/etc/twice", 644, "", "first"), file("/etc/twice", 640, "", "last"), file("/etc/machine-name", 644, "", "mine"),
		},
		Units: []osm.Unit{{Name: "a.service", Enable: &yes, Content: &content, DropIns: []osm.DropIn{{Name: "10-x.conf", Content: "[Unit]\n"}}}, {Name: "b.service", Mask: &yes}},
	}
	for name, c := range map[string]struct {
		system  osm.OperatingSystem
		utility osm.ProvisioningUtility
		flatcar *render.FlatcarSpec
		read    func(*testing.T, []byte) (files map[string]string, units map[string]string)
		// If two files have the same path, the later one counts; this tests which one is later.
		machineName string
	}{
		"cloud-init":            {osm.OperatingSystemUbuntu, osm.ProvisioningUtilityCloudInit, nil, readCloudConfig, "0600 <MACHINE_NAME>"},
		"cloud-init of Flatcar": {osm.OperatingSystemFlatcar, osm.ProvisioningUtilityCloudInit, &render.FlatcarSpec{ProvisioningUtility: osm.ProvisioningUtilityCloudInit}, readCloudConfig, "0600 <MACHINE_NAME>"},
		"Ignition":              {osm.OperatingSystemFlatcar, osm.ProvisioningUtilityIgnition, nil, readIgnitionDocument, "0644 mine"},
	} {
		t.Run(name, func(t *testing.T) {
			in := render.Input{
				Profile: render.Profile{Spec: osm.OperatingSystemProfileSpec{
					OSName: c.system, OSVersion: "1", Version: "v1.0.0", ProvisioningUtility: c.utility,
					SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "azure"}}, BootstrapConfig: stage, ProvisioningConfig: stage,
				}},
				Pool:    render.Pool{Name: "p", Namespace: "n", CloudProvider: "azure", OperatingSystem: c.system, KubeletVersion: "v1.35.0"},
				Cluster: render.Cluster{APIServerToken: "real"},
			}
			in.Pool.OperatingSystemSpec.Flatcar = c.flatcar
			e := render.NewEngine()
			out, err := e.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			node, err := e.RenderNode(in)
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]struct {
				stage    render.NodeStage
				document []byte
			}{"bootstrap": {node.Bootstrap, out.Bootstrap}, "provisioning": {node.Provisioning, out.Provisioning}} {
				want, units := c.read(t, s.document)
				for path, content := range units {
					want[path] = "0644 " + content
				}
				got := map[string]string{}
				for _, f := range s.stage.Files {
					got[f.Path] = fmt.Sprintf("%04o %s", f.Mode, f.Content)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				if got["/etc/a"] != "0600 token real\n" || got["/etc/b"] != "0755 #!/bin/sh\n\techo \"ü\"\n" || got["/etc/twice"] != "0640 last" {
					t.Errorf("%s: %v", name, got)
				}
				if diff := cmp.Diff([]render.NodeUnit{{Name: "a.service", Enabled: true}, {Name: "b.service", Masked: true}}, s.stage.Units); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			got := ""
			for _, f := range node.Bootstrap.Files {
				if f.Path == "/etc/machine-name" {
					got = fmt.Sprintf("%04o %s", f.Mode, f.Content)
				}
			}
			if got != c.machineName {
				t.Errorf("/etc/machine-name is %q, want %q", got, c.machineName)
			}
		})
	}
}

// unitPaths puts a unit and its drop-ins where systemd looks for them.
func unitPaths(to map[string]string, name, content string, masked bool, dropIns map[string]string) {
	const dir = "/etc/systemd/system/"
	if content != "" || masked {
		to[dir+name] = content
	}
	for dropIn, content := range dropIns {
		to[dir+name+".d/"+dropIn] = content
	}
}

func readCloudConfig(t *testing.T, doc []byte) (files, units map[string]string) {
	t.Helper()
	var d struct {
		WriteFiles []struct{ Path, Permissions, Encoding, Content string } `json:"write_files"`
		CoreOS     struct {
			Units []struct {
				Name, Content string
				Mask          bool
				DropIns       []struct{ Name, Content string } `json:"drop_ins"`
			}
		} `json:"coreos"`
	}
	if err := yaml.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	files, units = map[string]string{}, map[string]string{}
	for _, f := range d.WriteFiles {
		if f.Encoding == "b64" {
			b, err := base64.StdEncoding.DecodeString(f.Content)
			if err != nil {
				t.Fatal(err)
			}
			f.Content = string(b)
		}
		files[f.Path] = f.Permissions + " " + f.Content
	}
	for _, u := range d.CoreOS.Units {
		dropIns := map[string]string{}
		for _, d := range u.DropIns {
			dropIns[d.Name] = d.Content
		}
		unitPaths(units, u.Name, u.Content, u.Mask, dropIns)
	}
	return files, units
}

func readIgnitionDocument(t *testing.T, doc []byte) (files, units map[string]string) {
	t.Helper()
	var d struct {
		Storage struct {
			Files []struct {
				Path     string
				Mode     uint32
				Contents struct{ Source string }
			}
		}
		Systemd struct {
			Units []struct {
				Name, Contents string
				Mask           bool
				Dropins        []struct{ Name, Contents string }
			}
		}
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	files, units = map[string]string{}, map[string]string{}
	for _, f := range d.Storage.Files {
		content, err := url.PathUnescape(strings.TrimPrefix(f.Contents.Source, "data:,"))
		if err != nil {
			t.Fatal(err)
		}
		mode := strconv.FormatUint(uint64(f.Mode), 8)
		files[f.Path] = strings.Repeat("0", 4-len(mode)) + mode + " " + content
	}
	for _, u := range d.Systemd.Units {
		dropIns := map[string]string{}
		for _, d := range u.Dropins {
			dropIns[d.Name] = d.Contents
		}
		unitPaths(units, u.Name, u.Contents, u.Mask, dropIns)
	}
	return files, units
}
