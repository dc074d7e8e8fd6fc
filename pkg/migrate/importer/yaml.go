package importer

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// field is a key with its value; a mapping is written in the order of its fields.
type field struct {
	key   string
	value any
}

// profileYAML writes a profile in the form that people write: metadata first, multi-line
// text as literal blocks. It does not use a library because ours write no literal block if
// a line ends with a space, which is common in scripts. The caller decodes and compares the
// result.
func profileYAML(comment string, metadata []field, spec osm.OperatingSystemProfileSpec) []byte {
	var w writer
	w.comment(comment)
	w.mapping("", []field{
		{"apiVersion", osm.GroupVersion.String()},
		{"kind", "OperatingSystemProfile"},
		{"metadata", metadata},
		{"spec", specFields(spec)},
	})
	return w.out.Bytes()
}

func specFields(spec osm.OperatingSystemProfileSpec) []field {
	out := []field{
		{"version", spec.Version},
		{"osName", string(spec.OSName)},
		{"osVersion", spec.OSVersion},
	}
	if spec.ProvisioningUtility != "" {
		out = append(out, field{"provisioningUtility", string(spec.ProvisioningUtility)})
	}
	return append(out,
		field{"supportedCloudProviders", providers(spec.SupportedCloudProviders)},
		field{"bootstrapConfig", stage(spec.BootstrapConfig)},
		field{"provisioningConfig", stage(spec.ProvisioningConfig)})
}

func providers(list []osm.CloudProviderSpec) []any {
	out := []any{}
	for _, p := range list {
		fields := []field{{"name", string(p.Name)}}
		if p.Spec != nil {
			fields = append(fields, field{"spec", json.RawMessage(p.Spec.Raw)})
		}
		out = append(out, fields)
	}
	return out
}

func stage(c osm.OSPConfig) []field {
	out := []field{}
	if len(c.Templates) > 0 {
		out = append(out, field{"templates", c.Templates})
	}
	if len(c.SupportedContainerRuntimes) > 0 {
		out = append(out, field{"supportedContainerRuntimes", each(c.SupportedContainerRuntimes, runtimeFields)})
	}
	if len(c.Units) > 0 {
		out = append(out, field{"units", each(c.Units, unitFields)})
	}
	if len(c.Files) > 0 {
		out = append(out, field{"files", each(c.Files, fileFields)})
	}
	if m := c.CloudInitModules; m != nil {
		out = append(out, field{"modules", moduleFields(*m)})
	}
	return out
}

// each converts a list of mappings.
func each[T any](list []T, fields func(T) []field) []any {
	out := make([]any, 0, len(list))
	for _, e := range list {
		out = append(out, fields(e))
	}
	return out
}

func runtimeFields(r osm.ContainerRuntimeSpec) []field {
	out := []field{{"name", string(r.Name)}}
	if len(r.Templates) > 0 {
		out = append(out, field{"templates", r.Templates})
	}
	return append(out, field{"files", each(r.Files, fileFields)})
}

func unitFields(u osm.Unit) []field {
	out := []field{{"name", u.Name}}
	if u.Enable != nil {
		out = append(out, field{"enable", *u.Enable})
	}
	if u.Mask != nil {
		out = append(out, field{"mask", *u.Mask})
	}
	if u.Content != nil {
		out = append(out, field{"content", *u.Content})
	}
	if len(u.DropIns) > 0 {
		out = append(out, field{"dropIns", each(u.DropIns, func(d osm.DropIn) []field {
			return []field{{"name", d.Name}, {"content", d.Content}}
		})})
	}
	return out
}

func fileFields(f osm.File) []field {
	out := []field{{"path", f.Path}}
	if f.Permissions != 0 {
		out = append(out, field{"permissions", int(f.Permissions)})
	}
	content := []field{}
	if inline := f.Content.Inline; inline != nil {
		in := []field{}
		if inline.Encoding != "" {
			in = append(in, field{"encoding", inline.Encoding})
		}
		content = append(content, field{"inline", append(in, field{"data", inline.Data})})
	}
	return append(out, field{"content", content})
}

func moduleFields(m osm.CloudInitModule) []field {
	out := []field{}
	if len(m.BootCMD) > 0 {
		out = append(out, field{"bootcmd", m.BootCMD})
	}
	if len(m.RunCMD) > 0 {
		out = append(out, field{"runcmd", m.RunCMD})
	}
	if len(m.RHSubscription) > 0 {
		out = append(out, field{"rh_subscription", m.RHSubscription})
	}
	if len(m.YumRepos) > 0 {
		repos := []field{}
		for _, name := range slices.Sorted(maps.Keys(m.YumRepos)) {
			repos = append(repos, field{name, m.YumRepos[name]})
		}
		out = append(out, field{"yum_repos", repos})
	}
	if m.YumRepoDir != "" {
		out = append(out, field{"yum_repo_dir", m.YumRepoDir})
	}
	return out
}

// writer writes YAML with an indentation of two spaces, and lists without one.
type writer struct{ out bytes.Buffer }

func (w *writer) comment(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		w.out.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
}

func (w *writer) mapping(indent string, fields []field) {
	for i, f := range fields {
		if i > 0 || !w.midLine() {
			w.out.WriteString(indent)
		}
		w.out.WriteString(scalar(f.key) + ":")
		w.value(indent, f.value)
	}
}

// midLine reports whether the line has begun, as after the "- " of a list.
func (w *writer) midLine() bool {
	b := w.out.Bytes()
	return len(b) > 0 && b[len(b)-1] != '\n'
}

// value writes the value of a key and ends the line.
func (w *writer) value(indent string, v any) {
	switch v := v.(type) {
	case []field:
		if len(v) == 0 {
			w.out.WriteString(" {}\n")
			return
		}
		w.out.WriteString("\n")
		w.mapping(indent+"  ", v)
	case map[string]string:
		fields := []field{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, field{k, v[k]})
		}
		w.value(indent, fields)
	case []string:
		list := make([]any, 0, len(v))
		for _, s := range v {
			list = append(list, s)
		}
		w.value(indent, list)
	case []any:
		w.list(indent, v)
	case string:
		w.text(indent, v)
	default:
		w.out.WriteString(" " + flow(v) + "\n")
	}
}

func (w *writer) list(indent string, items []any) {
	if len(items) == 0 {
		w.out.WriteString(" []\n")
		return
	}
	w.out.WriteString("\n")
	for _, item := range items {
		w.out.WriteString(indent + "-")
		if fields, ok := item.([]field); ok && len(fields) > 0 {
			w.out.WriteString(" ")
			w.mapping(indent+"  ", fields)
			continue
		}
		w.value(indent, item)
	}
}

func (w *writer) text(indent, s string) {
	if !strings.Contains(s, "\n") || !literal(s) {
		w.out.WriteString(" " + scalar(s) + "\n")
		return
	}
	w.out.WriteString(" |")
	if s[0] == ' ' || s[0] == '\n' || s[0] == '\t' {
		w.out.WriteString("2")
	}
	body := strings.TrimRight(s, "\n")
	switch len(s) - len(body) {
	case 0:
		w.out.WriteString("-")
	case 1:
	default:
		w.out.WriteString("+")
	}
	w.out.WriteString("\n")
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			line = indent + "  " + line
		}
		w.out.WriteString(line + "\n")
	}
	for range len(s) - len(body) - 1 {
		w.out.WriteString("\n")
	}
}

// literal reports whether a text can be a literal block: it is not empty, and contains
// nothing that YAML treats as a line break or rejects.
func literal(s string) bool {
	if strings.Trim(s, " \t\n") == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case '\n', '\t':
			return false
		case 0x85, 0x2028, 0x2029, 0xfeff, 0xfffd:
			return true
		}
		return r < ' ' || r >= 0x7f && r < 0xa0
	})
}

// scalar writes a text on one line, quoted if it could be decoded as another value.
func scalar(s string) string {
	var v any = s
	if strings.ContainsAny(s, "\n\r") {
		v = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return flow(s)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// flow writes a value on one line as JSON, which is valid YAML.
func flow(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "null"
	}
	return strings.TrimSuffix(out.String(), "\n")
}
