package importer_test

import (
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// TestOverlays: a profile that differs little from another becomes an overlay that the
// controller resolves to exactly the same content.
func TestOverlays(t *testing.T) {
	var base profile.Document
	for _, d := range builtin(t) {
		if d.Name == "osp-amzn2" {
			base = d
		}
	}
	file := func(path string) osm.File {
		return osm.File{Path: path, Permissions: 600, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "a\nb \n"}}}
	}
	on := true
	for name, c := range map[string]struct {
		profile string
		edit    func(*osm.OperatingSystemProfileSpec)
		want    []string // parts of the overlay
	}{
		"a file more": {"osp-amzn2-web", func(s *osm.OperatingSystemProfileSpec) {
			s.ProvisioningConfig.Files = append(s.ProvisioningConfig.Files, file("/etc/web"))
		}, []string{"  provisioningConfig:\n    files:\n      add:\n      - path: /etc/web\n        permissions: 600\n"}},
		"a file more in the middle": {"osp-amzn2-web", func(s *osm.OperatingSystemProfileSpec) {
			s.ProvisioningConfig.Files = append([]osm.File{file("/etc/web")}, s.ProvisioningConfig.Files...)
		}, []string{"- path: /etc/web"}},
		"the built-in one, changed, under its own name": {"osp-amzn2", func(s *osm.OperatingSystemProfileSpec) {
			s.Version = "v9.9.9"
			s.ProvisioningConfig.Files[0].Permissions = 700
			s.ProvisioningConfig.Files[1].Content.Inline.Data = "other\n"
			s.ProvisioningConfig.Files = s.ProvisioningConfig.Files[:len(s.ProvisioningConfig.Files)-1]
		}, []string{"      replace:\n", "permissions: 700\n", "data: |\n              other\n", "      remove:\n"}},
		"providers, templates, modules, units": {"osp-amzn2-web", func(s *osm.OperatingSystemProfileSpec) {
			s.SupportedCloudProviders = append(s.SupportedCloudProviders, osm.CloudProviderSpec{Name: "fake"})
			s.OSVersion = "2.1"
			for k := range s.BootstrapConfig.Templates {
				s.BootstrapConfig.Templates[k] = "# nothing\n"
			}
			s.BootstrapConfig.CloudInitModules.RunCMD = []string{"true"}
			s.BootstrapConfig.CloudInitModules.BootCMD = []string{"echo early"}
			content := "[Unit]\n"
			s.ProvisioningConfig.Units = []osm.Unit{{Name: "a.service", Enable: &on, Content: &content, DropIns: []osm.DropIn{{Name: "b.conf", Content: "x"}}}}
			s.ProvisioningConfig.SupportedContainerRuntimes[0].Files = append(s.ProvisioningConfig.SupportedContainerRuntimes[0].Files, file("/etc/runtime"))
		}, []string{"  supportedCloudProviders:\n    add:\n    - name: fake\n", "  osVersion: \"2.1\"\n", "    templates:\n      replace:\n",
			"    modules:\n      add:\n        bootcmd:\n        - echo early\n      replace:\n        runcmd:\n", "    units:\n      add:\n      - name: a.service\n", "    supportedContainerRuntimes:\n    - name: containerd\n      files:\n        add:\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := *base.Spec.DeepCopy()
			c.edit(&spec)
			p := plan(t, string(importer.ProfileYAML(c.profile, spec)))
			if p.Profiles[0].Action != importer.ActionOverlay || p.Profiles[0].Base != "osp-amzn2 "+base.Spec.Version {
				t.Fatalf("%s", said(p))
			}
			text := string(p.Files["profiles/"+c.profile+".yaml"])
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("the overlay has no %q:\n%s", want, text)
				}
			}
			got, ok := sync(t, p)[c.profile]
			if !ok {
				t.Fatal("the controller finds no profile")
			}
			if importer.Sorted(got.Spec) != importer.Sorted(spec) {
				t.Errorf("the overlay comes to something else:\n%s", text)
			}
		})
	}
	t.Run("a profile that has little in common is a copy", func(t *testing.T) {
		spec := *base.Spec.DeepCopy()
		for i := range spec.ProvisioningConfig.Files {
			spec.ProvisioningConfig.Files[i].Content.Inline.Data = "mine: " + spec.ProvisioningConfig.Files[i].Content.Inline.Data
		}
		for k := range spec.ProvisioningConfig.Templates {
			spec.ProvisioningConfig.Templates[k] += "# mine\n"
		}
		for k := range spec.BootstrapConfig.Templates {
			spec.BootstrapConfig.Templates[k] += "# mine\n"
		}
		if p := plan(t, string(importer.ProfileYAML("osp-mine", spec))); p.Profiles[0].Action != importer.ActionCopy {
			t.Errorf("%s", said(p))
		}
	})
	t.Run("one imported profile is the base of another", func(t *testing.T) {
		other := strings.NewReplacer("name: osp-small", "name: osp-small-web", "    files:\n", "    files:\n    - path: /etc/web\n      content: {inline: {data: web}}\n").Replace(roomy())
		p := plan(t, roomy(), other)
		if report := said(p); !strings.Contains(report, "osp-small-web v1.0.0 overlay") || p.Profiles[1].Base != "osp-small v1.0.0" {
			t.Errorf("%s", report)
		}
		if len(sync(t, p)) != 2 {
			t.Error("the controller does not find both")
		}
	})
}

// roomy is small with enough content that an overlay on it is worthwhile.
func roomy() string {
	return strings.Replace(small, "  provisioningConfig: {}\n", "  provisioningConfig:\n    files:\n    - path: /etc/much\n      content: {inline: {data: \""+strings.Repeat("line\\n", 100)+"\"}}\n", 1)
}

// The order of files, units and providers does not matter to a node, so the digest that
// compares profiles ignores it.
func TestSortedIgnoresOrder(t *testing.T) {
	file := func(path string) osm.File {
		return osm.File{Path: path, Permissions: 600, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: path}}}
	}
	unit := func(name string) osm.Unit { return osm.Unit{Name: name, Content: &name} }
	spec := func(at ...int) osm.OperatingSystemProfileSpec {
		stage := osm.OSPConfig{SupportedContainerRuntimes: []osm.ContainerRuntimeSpec{{Name: "containerd"}}}
		var providers []osm.CloudProviderSpec
		for _, i := range at {
			name := string(rune('a' + i))
			stage.Files = append(stage.Files, file("/"+name))
			stage.Units = append(stage.Units, unit(name+".service"))
			stage.SupportedContainerRuntimes[0].Files = append(stage.SupportedContainerRuntimes[0].Files, file("/etc/"+name))
			providers = append(providers, osm.CloudProviderSpec{Name: osm.CloudProvider(name)})
		}
		return osm.OperatingSystemProfileSpec{OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0", SupportedCloudProviders: providers, BootstrapConfig: stage, ProvisioningConfig: stage}
	}
	want := importer.Sorted(spec(0, 1, 2))
	if got := importer.Sorted(spec(2, 0, 1)); got != want {
		t.Errorf("another order has the digest %s, want %s", got, want)
	}
	if importer.Sorted(spec(0, 1, 3)) == want {
		t.Error("another file, unit and provider has the same digest")
	}
	for name, swap := range map[string]func(*osm.OperatingSystemProfileSpec){
		"files":               func(s *osm.OperatingSystemProfileSpec) { swap(s.BootstrapConfig.Files) },
		"units":               func(s *osm.OperatingSystemProfileSpec) { swap(s.ProvisioningConfig.Units) },
		"files of a runtime":  func(s *osm.OperatingSystemProfileSpec) { swap(s.BootstrapConfig.SupportedContainerRuntimes[0].Files) },
		"supported providers": func(s *osm.OperatingSystemProfileSpec) { swap(s.SupportedCloudProviders) },
	} {
		base := spec(0, 1, 2)
		s := base.DeepCopy()
		if swap(s); importer.Sorted(*s) != want {
			t.Errorf("another order of %s has another digest", name)
		}
	}
}

func swap[T any](list []T) { list[0], list[2] = list[2], list[0] }
