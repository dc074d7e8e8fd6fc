package overlay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

func decodeBase(t testing.TB) profile.Document {
	t.Helper()
	docs, err := profile.Decode("profiles/base.yaml", []byte(profiletest.Base))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0]
}

func decodeOverlay(t testing.TB, text string) profile.Overlay {
	t.Helper()
	in, err := profile.DecodeFile("profiles/over.yaml", []byte(text))
	if err != nil || len(in.Overlays) != 1 {
		t.Fatalf("%d overlays: %v", len(in.Overlays), err)
	}
	return in.Overlays[0]
}

func TestApply(t *testing.T) {
	o := decodeOverlay(t, profiletest.Overlay+`  osVersion: "24.04.1"
  supportedCloudProviders:
    add: [{name: gce}]
    remove: [aws]
  bootstrapConfig:
    files:
      add:
      - path: /opt/new
        content:
          inline:
            data: |
              new
      replace:
      - path: /opt/first
        permissions: 700
      remove: [/opt/second]
    templates:
      add: {new: echo new}
      replace:
        bye: |
          echo farewell
      remove: [hello]
    modules:
      append:
        runcmd: [echo last]
      add:
        bootcmd: [echo early]
    units:
      replace:
      - name: first.service
        content: "[Service]"
      add:
      - name: second.service
  provisioningConfig:
    supportedContainerRuntimes:
    - name: containerd
      files:
        replace:
        - path: /etc/containerd/config.toml
          content: {inline: {data: "version = 3"}}
      templates:
        remove: [install]
`)
	base := decodeBase(t)
	got, err := Apply(o, base)
	if err != nil {
		t.Fatal(err)
	}
	want := *base.Spec.DeepCopy()
	yes, service := true, "[Service]"
	want.Version, want.OSVersion = "v2.0.0", "24.04.1"
	want.SupportedCloudProviders = []osm.CloudProviderSpec{{Name: "hetzner"}, {Name: "gce"}}
	b := &want.BootstrapConfig
	b.Files[0].Permissions = 700
	b.Files[1] = osm.File{Path: "/opt/new", Permissions: 644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "new\n"}}}
	b.Templates = map[string]string{"new": "echo new", "bye": "echo farewell\n"}
	b.CloudInitModules.RunCMD = append(b.CloudInitModules.RunCMD, "echo last")
	b.CloudInitModules.BootCMD = []string{"echo early"}
	b.Units = []osm.Unit{{Name: "first.service", Enable: &yes, Content: &service}, {Name: "second.service"}}
	runtime := &want.ProvisioningConfig.SupportedContainerRuntimes[0]
	runtime.Files[0].Content.Inline.Data, runtime.Templates = "version = 3", nil
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Name != "osp-over" || got.Path != "profiles/over.yaml" || got.Digest != profile.Digest(want) {
		t.Errorf("name %q, path %q, digest %s", got.Name, got.Path, got.Digest)
	}
	if diff := cmp.Diff(decodeBase(t).Spec, base.Spec); diff != "" {
		t.Errorf("the base was changed:\n%s", diff)
	}
}

// Every text of an overlaid profile is found in the file that it is in, to the line:
// the line of either file holds the text.
func TestLinesAfterApply(t *testing.T) {
	text := profiletest.Overlay + `  bootstrapConfig:
    files:
      add:
      - path: /opt/new
        content:
          inline:
            data: |
              new
              newer
      replace:
      - path: /opt/second
        content: {inline: {data: "two"}}
      remove: [/opt/first]
    modules:
      append: {runcmd: [echo last]}
    templates:
      replace: {hello: echo good day}
`
	doc, err := Apply(decodeOverlay(t, text), decodeBase(t))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]struct{ file, text string }{
		"spec.bootstrapConfig.files[0].path":                                               {"", "- path: /opt/second"},
		"spec.bootstrapConfig.files[0].content.inline.data":                                {"", `{data: "two"}`},
		"spec.bootstrapConfig.files[1].content.inline.data":                                {"", "              new"},
		"spec.bootstrapConfig.templates[hello]":                                            {"", "good day"},
		"spec.bootstrapConfig.templates[bye]":                                              {"profiles/base.yaml", "        echo bye"},
		"spec.bootstrapConfig.modules.runcmd[0]":                                           {"profiles/base.yaml", "restart bootstrap.service"},
		"spec.bootstrapConfig.modules.runcmd[1]":                                           {"", "echo last"},
		"spec.provisioningConfig.files[0].content.inline.data":                             {"profiles/base.yaml", `"3"`},
		"spec.provisioningConfig.supportedContainerRuntimes[0].templates[install].nothing": {"profiles/base.yaml", "apt-get install"},
		"spec.osName":                     {"profiles/base.yaml", "osName: ubuntu"},
		"spec.version":                    {"", "version: v2.0.0"},
		"metadata.name":                   {"", "name: osp-over"},
		"metadata.labels":                 {"", "  name: osp-over"},
		"spec.bootstrapConfig.units[0]":   {"profiles/base.yaml", "first.service"},
		"spec.supportedCloudProviders[1]": {"profiles/base.yaml", "name: hetzner"},
	} {
		if got := doc.FileOf(field); got != want.file {
			t.Errorf("%s is in %q, want %q", field, got, want.file)
			continue
		}
		lines := strings.Split(text, "\n")
		if want.file != "" {
			lines = strings.Split(profiletest.Base, "\n")
		}
		if got := lines[doc.Line(field)-1]; !strings.Contains(got, want.text) {
			t.Errorf("%s: line %d is %q, want %q", field, doc.Line(field), got, want.text)
		}
	}
}

// An impossible patch is an error that names the line of the overlay and the base.
func TestApplyConflicts(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"a file that is there is added": {
			"  bootstrapConfig: {files: {add: [{path: /opt/second, content: {inline: {data: x}}}]}}\n",
			`profiles/over.yaml:8: spec.bootstrapConfig.files.add[0].path: the base already has file "/opt/second", in profile "osp-base" v1.0.0 (profiles/base.yaml:28): use replace to change it, or remove it here`,
		},
		"a file that is not there is removed": {
			"  bootstrapConfig:\n    files:\n      remove:\n      - /opt/seconds\n",
			`profiles/over.yaml:11: spec.bootstrapConfig.files.remove[0]: there is no file "/opt/seconds" in bootstrapConfig.files of the base, profile "osp-base" v1.0.0 (profiles/base.yaml:20): did you mean "/opt/second"?`,
		},
		"a file that is not there is replaced": {
			"  provisioningConfig: {files: {replace: [{path: /opt/x, permissions: 600}]}}\n",
			`spec.provisioningConfig.files.replace[0].path: there is no file "/opt/x" in provisioningConfig.files of the base, profile "osp-base" v1.0.0 (profiles/base.yaml:43): remove it here, or name its replacement`,
		},
		"a template that is there is added":   {"  bootstrapConfig: {templates: {add: {bye: x}}}\n", `the base already has template "bye", in profile "osp-base" v1.0.0 (profiles/base.yaml:16)`},
		"a template that is not there":        {"  bootstrapConfig: {templates: {replace: {by: x}}}\n", `no template "by" in bootstrapConfig.templates of the base, profile "osp-base" v1.0.0 (profiles/base.yaml:14): did you mean "bye"?`},
		"a template to remove":                {"  provisioningConfig: {templates: {remove: [bye]}}\n", `there is no template "bye"`},
		"a unit that is there is added":       {"  bootstrapConfig: {units: {add: [{name: first.service}]}}\n", `the base already has unit "first.service", in profile "osp-base" v1.0.0 (profiles/base.yaml:31)`},
		"a unit that is not there":            {"  provisioningConfig: {units: {remove: [first.service]}}\n", `spec.provisioningConfig.units.remove[0]: there is no unit "first.service"`},
		"a module that is there is added":     {"  bootstrapConfig: {modules: {add: {runcmd: [x]}}}\n", `the base already has module "runcmd", in profile "osp-base" v1.0.0 (profiles/base.yaml:18)`},
		"commands after a module that is not": {"  bootstrapConfig: {modules: {append: {bootcmd: [x]}}}\n", `spec.bootstrapConfig.modules.append.bootcmd: there is no module "bootcmd"`},
		"a module to replace":                 {"  provisioningConfig: {modules: {replace: {runcmd: [x]}}}\n", `there is no module "runcmd"`},
		"a module to remove":                  {"  provisioningConfig: {modules: {remove: [yum_repos]}}\n", `there is no module "yum_repos"`},
		"a provider that is there":            {"  supportedCloudProviders: {add: [{name: aws}]}\n", `the base already has cloud provider "aws", in profile "osp-base" v1.0.0 (profiles/base.yaml:10)`},
		"a provider that is not there":        {"  supportedCloudProviders: {remove: [gce]}\n", `there is no cloud provider "gce"`},
		"a runtime that is not there":         {"  bootstrapConfig: {supportedContainerRuntimes: [{name: containerd}]}\n", `has no container runtime "containerd" in this stage`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Apply(decodeOverlay(t, profiletest.Overlay+c.spec), decodeBase(t))
			problems := strictyaml.Problems(err)
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) || problems[0].Line == 0 {
				t.Errorf("got\n%v\nwant\n%s", err, c.want)
			}
		})
	}
	t.Run("a path that the base has twice", func(t *testing.T) {
		base := decodeBase(t)
		base.Spec.BootstrapConfig.Files[1].Path = "/opt/first"
		_, err := Apply(decodeOverlay(t, profiletest.Overlay+"  bootstrapConfig: {files: {remove: [/opt/first]}}\n"), base)
		if err == nil || !strings.Contains(err.Error(), `file "/opt/first" is in the base 2 times`) {
			t.Error(err)
		}
	})
}

// An overlay cannot result in a profile that is too large.
func TestApplyTooLarge(t *testing.T) {
	base := decodeBase(t)
	base.Spec.BootstrapConfig.Files[0].Content.Inline.Data = strings.Repeat("x", strictyaml.MaxFileBytes*3/4)
	text := profiletest.Overlay + fmt.Sprintf("  provisioningConfig: {templates: {add: {big: %s}}}\n", strings.Repeat("y", strictyaml.MaxFileBytes/2))
	if _, err := Apply(decodeOverlay(t, text), base); err == nil || !strings.Contains(err.Error(), "spec.from: has ") {
		t.Error(err)
	}
}
