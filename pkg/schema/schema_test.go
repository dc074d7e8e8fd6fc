package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/schema"
)

// compile compiles a schema as it is printed.
func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	text, ok := schema.Named(name)
	if !ok {
		t.Fatalf("unknown schema %q", name)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name+".json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance decodes a YAML document as an editor does for a schema.
func instance(t *testing.T, text []byte) any {
	t.Helper()
	b, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestProfilesValidate: shipped profiles and examples match their schema, and the pools
// next to them match the repository's, which accepts other kinds.
func TestProfilesValidate(t *testing.T) {
	osp, repository := compile(t, "osp"), compile(t, schema.Repository)
	found := 0
	for _, glob := range []string{"../../profiles/osp-*.yaml", "../../examples/repository/profiles/*.yaml", "../../examples/overlays/*.yaml", "../../examples/pools/*.yaml"} {
		paths, err := filepath.Glob(glob)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", glob, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
				doc := instance(t, part)
				if err := repository.Validate(doc); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				if !bytes.Contains(part, []byte("kind: OperatingSystemProfile")) {
					continue
				}
				found++
				if err := osp.Validate(doc); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
	if found < 9 {
		t.Errorf("found %d profiles", found)
	}
}

const good = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-test
  labels: {team: web}
  creationTimestamp: null
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  provisioningUtility: cloud-init
  supportedCloudProviders:
  - name: aws
    spec: {region: eu-central-1}
  bootstrapConfig:
    templates:
      hello: echo hello
    files:
    - path: /opt/a
      permissions: 755
      content:
        inline:
          encoding: b64
          data: one
    units:
    - name: a.service
      enable: true
      dropIns:
      - name: b.conf
        content: "[Unit]"
    modules:
      runcmd: [ls]
      yum_repos: {a: {baseurl: x}}
  provisioningConfig:
    supportedContainerRuntimes:
    - name: containerd
      files: []
      templates:
status: {}
`

// TestSchemaAgreesWithDecode: decoder and schema accept the same documents, as far as draft
// 07 can express it.
func TestSchemaAgreesWithDecode(t *testing.T) {
	osp, repository := compile(t, "osp"), compile(t, schema.Repository)
	says := func(t *testing.T, text string, want bool) {
		t.Helper()
		_, decodeErr := profile.Decode("a.yaml", []byte(text))
		doc := instance(t, []byte(text))
		for what, err := range map[string]error{"Decode": decodeErr, "the schema": osp.Validate(doc), "the repository's schema": repository.Validate(doc)} {
			if (err == nil) != want {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	says(t, good, true)
	for name, edit := range map[string][2]string{
		"a misspelt kind":                  {"kind: OperatingSystemProfile", "kind: OperatingSystemProfiles"},
		"no kind":                          {"kind: OperatingSystemProfile\n", ""},
		"an unknown field of the document": {"status: {}", "state: {}"},
		"no metadata":                      {"metadata:\n  name: osp-test\n  labels: {team: web}\n  creationTimestamp: null\n", ""},
		"no name":                          {"  name: osp-test\n", ""},
		"a bad name":                       {"name: osp-test", "name: OSP_test"},
		"a long name":                      {"name: osp-test", "name: " + strings.Repeat("a", 64)},
		"an unknown field of metadata":     {"labels:", "lables:"},
		"a number among the labels":        {"{team: web}", "{team: 1}"},
		"no osName":                        {"  osName: ubuntu\n", ""},
		"an unknown system":                {"osName: ubuntu", "osName: sles"},
		"osVersion is a number":            {`"24.04"`, "24.04"},
		"a version without v":              {"version: v1.0.0", "version: 1.0.0"},
		"a version with a prefix":          {"version: v1.0.0", "version: release-v1.0.0"},
		"a version with a suffix":          {"version: v1.0.0", "version: v1.0.0 new"},
		"an unknown utility":               {"provisioningUtility: cloud-init", "provisioningUtility: ansible"},
		"an unknown provider":              {"name: aws", "name: awz"},
		"providers are names":              {"- name: aws\n    spec: {region: eu-central-1}", "- aws"},
		"an unknown field of the spec":     {"osVersion:", "osVersoin:"},
		"no bootstrapConfig":               {"bootstrapConfig:", "bootstrap:"},
		"an unknown field of a stage":      {"    files:\n    - path: /opt/a", "    file:\n    - path: /opt/a"},
		"templates are a list":             {"templates:\n      hello: echo hello", "templates:\n      - echo hello"},
		"a template is a number":           {"hello: echo hello", "hello: 5"},
		"no path":                          {"path: /opt/a\n      permissions", "permissions"},
		"an empty path":                    {"path: /opt/a", `path: ""`},
		"permissions are text":             {"permissions: 755", `permissions: "755"`},
		"permissions out of range":         {"permissions: 755", "permissions: 77777"},
		"negative permissions":             {"permissions: 755", "permissions: -1"},
		"no inline":                        {"inline:\n          encoding: b64\n          data: one", "{}"},
		"no data":                          {"          data: one\n", ""},
		"an unknown field of inline":       {"encoding: b64", "encode: b64"},
		"enable is text":                   {"enable: true", `enable: "yes"`},
		"a unit without a name":            {"- name: a.service\n      enable", "- enable"},
		"a drop-in without content":        {"\n        content: \"[Unit]\"", ""},
		"an unknown module":                {"runcmd:", "ntp:"},
		"runcmd of lists":                  {"runcmd: [ls]", "runcmd: [[ls]]"},
		"a flat yum_repos":                 {"{a: {baseurl: x}}", "{a: x}"},
		"an unknown runtime":               {"name: containerd", "name: crio"},
		"a runtime without files":          {"      files: []\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, edit[0], edit[1], 1)
			if text == good {
				t.Fatalf("there is no %q", edit[0])
			}
			says(t, text, false)
		})
	}
}

const goodOverlay = `apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata:
  name: osp-mine
spec:
  version: v1.0.0
  from:
    profile: osp-ubuntu
    version: v1.3.2
  supportedCloudProviders:
    remove: [edge]
  provisioningConfig:
    files:
      add:
      - path: /etc/motd
        content:
          inline:
            data: hello
      replace:
      - path: /etc/issue
        permissions: 600
      remove: [/etc/old]
    templates:
      replace:
        hello: echo hello
    modules:
      append:
        runcmd: [ls]
      remove: [bootcmd]
`

// TestOverlaySchemaAgreesWithDecode is the same for overlays.
func TestOverlaySchemaAgreesWithDecode(t *testing.T) {
	overlay, repository := compile(t, "overlay"), compile(t, schema.Repository)
	says := func(t *testing.T, text string, want bool) {
		t.Helper()
		_, decodeErr := profile.DecodeFile("a.yaml", []byte(text))
		doc := instance(t, []byte(text))
		for what, err := range map[string]error{"DecodeFile": decodeErr, "the schema": overlay.Validate(doc), "the repository's schema": repository.Validate(doc)} {
			if (err == nil) != want {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	says(t, goodOverlay, true)
	for name, edit := range map[string][2]string{
		"no base":                {"  from:\n    profile: osp-ubuntu\n    version: v1.3.2\n", ""},
		"a base without version": {"    version: v1.3.2\n", ""},
		"a range of versions":    {"version: v1.3.2", "version: ~1.3"},
		"no version":             {"  version: v1.0.0\n", ""},
		"a bad version":          {"version: v1.0.0", "version: one"},
		"a bad name":             {"osp-mine", "OSP_mine"},
		"an unknown patch":       {"remove: [edge]", "delete: [edge]"},
		"an unknown provider":    {"[edge]", "[edg]"},
		"an unknown module":      {"[bootcmd]", "[ntp]"},
		"a file without path":    {"- path: /etc/motd\n        content", "- content"},
		"a path for a list":      {"[/etc/old]", "/etc/old"},
		"an unknown field":       {"profile: osp-ubuntu", "name: osp-ubuntu"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodOverlay, edit[0], edit[1], 1)
			if text == goodOverlay {
				t.Fatalf("there is no %q", edit[0])
			}
			says(t, text, false)
		})
	}
}

const goodConfig = `lint:
  providers: [aws]
  kubeletVersions: ["1.34"]
  shellcheck: auto
  severity:
    template: warning
  suppress:
  - rule: template
    reason: because
    until: "2027-03-31"
`

// TestConfigSchemaAgreesWithParse is the same for .osm-gitops.yaml.
func TestConfigSchemaAgreesWithParse(t *testing.T) {
	compiled := compile(t, "config")
	says := func(t *testing.T, text string, want bool) {
		t.Helper()
		_, parseErr := lint.ParseConfig(".osm-gitops.yaml", []byte(text))
		for what, err := range map[string]error{"Parse": parseErr, "the schema": compiled.Validate(instance(t, []byte(text)))} {
			if (err == nil) != want {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	says(t, goodConfig, true)
	for name, edit := range map[string][2]string{
		"an unknown section":      {"lint:", "lnt:"},
		"an unknown field":        {"suppress:", "supress:"},
		"an unknown provider":     {"[aws]", "[awz]"},
		"a number for a version":  {`"1.34"`, "1.34"},
		"an unknown mode":         {"shellcheck: auto", "shellcheck: always"},
		"an unknown severity":     {"template: warning", "template: fatal"},
		"no rule":                 {"- rule: template\n    reason", "- reason"},
		"no reason":               {"    reason: because\n", ""},
		"an empty reason":         {"reason: because", `reason: ""`},
		"a date of another order": {"2027-03-31", "31.3.2027"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodConfig, edit[0], edit[1], 1)
			if text == goodConfig {
				t.Fatalf("there is no %q", edit[0])
			}
			says(t, text, false)
		})
	}
}

// TestOtherKinds: a repository can contain YAML of other kinds.
func TestOtherKinds(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n",
		"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
	} {
		if err := compile(t, schema.Repository).Validate(instance(t, []byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestEverythingIsDescribed: everything that an editor completes has a description.
func TestEverythingIsDescribed(t *testing.T) {
	for _, s := range schema.All() {
		text, _ := schema.Named(s.Name)
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		if root["$schema"] != draft {
			t.Errorf("%s is of %v", s.Name, root["$schema"])
		}
		properties := 0
		var walk func(at string, v any)
		walk = func(at string, v any) {
			switch v := v.(type) {
			case map[string]any:
				for _, key := range sorted(v) {
					if key == "if" {
						continue // a condition needs no description
					}
					if key != "properties" {
						walk(at+"."+key, v[key])
						continue
					}
					fields, _ := v[key].(map[string]any)
					for name, field := range fields {
						properties++
						if !described(root, field) {
							t.Errorf("%s%s.%s has no description", s.Name, at, name)
						}
						walk(at+"."+name, field)
					}
				}
			case []any:
				for i, e := range v {
					walk(fmt.Sprintf("%s[%d]", at, i), e)
				}
			}
		}
		walk("", root)
		if properties < 4 {
			t.Errorf("%s has %d properties", s.Name, properties)
		}
	}
}

func described(root map[string]any, field any) bool {
	f, _ := field.(map[string]any)
	if ref, ok := f["$ref"].(string); ok {
		definitions, _ := root["definitions"].(map[string]any)
		f, _ = definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	text, _ := f["description"].(string)
	return strings.TrimSpace(text) != ""
}

// TestTemplateVariables: the description of file content lists the available variables.
func TestTemplateVariables(t *testing.T) {
	text, _ := schema.Named("osp")
	var root struct {
		Definitions struct {
			Template struct{ Description, MarkdownDescription string }
		}
	}
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".KubeVersion", ".Provenance.ConfigDigest", ".NetworkConfig.DNS.Servers", ".DownloadMirrors", "toYaml", "semverCompare"} {
		for _, text := range []string{root.Definitions.Template.Description, root.Definitions.Template.MarkdownDescription} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not among the variables and functions", want)
			}
		}
	}
}
