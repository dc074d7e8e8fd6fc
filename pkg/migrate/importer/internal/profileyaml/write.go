package profileyaml

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Field is a key with its value; a mapping is written in the order of its fields.
type Field struct {
	Key   string
	Value any
}

// Write writes a profile in the form that people write: metadata first, multi-line
// text as literal blocks. It does not use a library because ours write no literal block if
// a line ends with a space, which is common in scripts. The caller decodes and compares the
// result.
func Write(comment string, metadata []Field, spec osm.OperatingSystemProfileSpec) []byte {
	var w Writer
	w.Comment(comment)
	w.Mapping("", []Field{
		{"apiVersion", osm.GroupVersion.String()},
		{"kind", "OperatingSystemProfile"},
		{"metadata", metadata},
		{"spec", specFields(spec)},
	})
	return w.Out.Bytes()
}

func specFields(spec osm.OperatingSystemProfileSpec) []Field {
	out := []Field{
		{"version", spec.Version},
		{"osName", string(spec.OSName)},
		{"osVersion", spec.OSVersion},
	}
	if spec.ProvisioningUtility != "" {
		out = append(out, Field{"provisioningUtility", string(spec.ProvisioningUtility)})
	}
	return append(out,
		Field{"supportedCloudProviders", ProviderMappings(spec.SupportedCloudProviders)},
		Field{"bootstrapConfig", stageFields(spec.BootstrapConfig)},
		Field{"provisioningConfig", stageFields(spec.ProvisioningConfig)})
}

func ProviderMappings(list []osm.CloudProviderSpec) []any {
	out := []any{}
	for _, p := range list {
		fields := []Field{{"name", string(p.Name)}}
		if p.Spec != nil {
			fields = append(fields, Field{"spec", json.RawMessage(p.Spec.Raw)})
		}
		out = append(out, fields)
	}
	return out
}

func stageFields(c osm.OSPConfig) []Field {
	out := []Field{}
	if len(c.Templates) > 0 {
		out = append(out, Field{"templates", c.Templates})
	}
	if len(c.SupportedContainerRuntimes) > 0 {
		out = append(out, Field{"supportedContainerRuntimes", ConvertList(c.SupportedContainerRuntimes, runtimeFields)})
	}
	if len(c.Units) > 0 {
		out = append(out, Field{"units", ConvertList(c.Units, UnitFields)})
	}
	if len(c.Files) > 0 {
		out = append(out, Field{"files", ConvertList(c.Files, FileFields)})
	}
	if m := c.CloudInitModules; m != nil {
		out = append(out, Field{"modules", ModuleFields(*m)})
	}
	return out
}

// ConvertList converts a list of mappings.
func ConvertList[T any](list []T, fields func(T) []Field) []any {
	out := make([]any, 0, len(list))
	for _, e := range list {
		out = append(out, fields(e))
	}
	return out
}

func runtimeFields(r osm.ContainerRuntimeSpec) []Field {
	out := []Field{{"name", string(r.Name)}}
	if len(r.Templates) > 0 {
		out = append(out, Field{"templates", r.Templates})
	}
	return append(out, Field{"files", ConvertList(r.Files, FileFields)})
}

func UnitFields(u osm.Unit) []Field {
	out := []Field{{"name", u.Name}}
	if u.Enable != nil {
		out = append(out, Field{"enable", *u.Enable})
	}
	if u.Mask != nil {
		out = append(out, Field{"mask", *u.Mask})
	}
	if u.Content != nil {
		out = append(out, Field{"content", *u.Content})
	}
	if len(u.DropIns) > 0 {
		out = append(out, Field{"dropIns", ConvertList(u.DropIns, func(d osm.DropIn) []Field {
			return []Field{{"name", d.Name}, {"content", d.Content}}
		})})
	}
	return out
}

func FileFields(f osm.File) []Field {
	out := []Field{{"path", f.Path}}
	if f.Permissions != 0 {
		out = append(out, Field{"permissions", int(f.Permissions)})
	}
	content := []Field{}
	if inline := f.Content.Inline; inline != nil {
		in := []Field{}
		if inline.Encoding != "" {
			in = append(in, Field{"encoding", inline.Encoding})
		}
		content = append(content, Field{"inline", append(in, Field{"data", inline.Data})})
	}
	return append(out, Field{"content", content})
}

func ModuleFields(m osm.CloudInitModule) []Field {
	out := []Field{}
	if len(m.BootCMD) > 0 {
		out = append(out, Field{"bootcmd", m.BootCMD})
	}
	if len(m.RunCMD) > 0 {
		out = append(out, Field{"runcmd", m.RunCMD})
	}
	if len(m.RHSubscription) > 0 {
		out = append(out, Field{"rh_subscription", m.RHSubscription})
	}
	if len(m.YumRepos) > 0 {
		repos := []Field{}
		for _, name := range slices.Sorted(maps.Keys(m.YumRepos)) {
			repos = append(repos, Field{name, m.YumRepos[name]})
		}
		out = append(out, Field{"yum_repos", repos})
	}
	if m.YumRepoDir != "" {
		out = append(out, Field{"yum_repo_dir", m.YumRepoDir})
	}
	return out
}

// Writer writes YAML with an indentation of two spaces, and lists without one.
type Writer struct{ Out bytes.Buffer }

func (w *Writer) Comment(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		w.Out.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
}

func (w *Writer) Mapping(indent string, fields []Field) {
	for i, f := range fields {
		if i > 0 || !w.midLine() {
			w.Out.WriteString(indent)
		}
		w.Out.WriteString(formatScalar(f.Key) + ":")
		w.value(indent, f.Value)
	}
}

// midLine reports whether the line has begun, as after the "- " of a list.
func (w *Writer) midLine() bool {
	b := w.Out.Bytes()
	return len(b) > 0 && b[len(b)-1] != '\n'
}

// value writes the value of a key and ends the line.
func (w *Writer) value(indent string, v any) {
	switch v := v.(type) {
	case []Field:
		if len(v) == 0 {
			w.Out.WriteString(" {}\n")
			return
		}
		w.Out.WriteString("\n")
		w.Mapping(indent+"  ", v)
	case map[string]string:
		fields := []Field{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, Field{k, v[k]})
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
		w.Out.WriteString(" " + formatFlowStyle(v) + "\n")
	}
}

func (w *Writer) list(indent string, items []any) {
	if len(items) == 0 {
		w.Out.WriteString(" []\n")
		return
	}
	w.Out.WriteString("\n")
	for _, item := range items {
		w.Out.WriteString(indent + "-")
		if fields, ok := item.([]Field); ok && len(fields) > 0 {
			w.Out.WriteString(" ")
			w.Mapping(indent+"  ", fields)
			continue
		}
		w.value(indent, item)
	}
}

func (w *Writer) text(indent, s string) {
	if !strings.Contains(s, "\n") || !canBeLiteralBlock(s) {
		w.Out.WriteString(" " + formatScalar(s) + "\n")
		return
	}
	w.Out.WriteString(" |")
	if s[0] == ' ' || s[0] == '\n' || s[0] == '\t' {
		w.Out.WriteString("2")
	}
	body := strings.TrimRight(s, "\n")
	switch len(s) - len(body) {
	case 0:
		w.Out.WriteString("-")
	case 1:
	default:
		w.Out.WriteString("+")
	}
	w.Out.WriteString("\n")
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			line = indent + "  " + line
		}
		w.Out.WriteString(line + "\n")
	}
	for range len(s) - len(body) - 1 {
		w.Out.WriteString("\n")
	}
}

// canBeLiteralBlock reports whether a text can be a literal block: it is not empty, and contains
// nothing that YAML treats as a line break or rejects.
func canBeLiteralBlock(s string) bool {
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

// formatScalar writes a text on one line, quoted if it could be decoded as another value.
func formatScalar(s string) string {
	var v any = s
	if strings.ContainsAny(s, "\n\r") {
		v = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return formatFlowStyle(s)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// formatFlowStyle writes a value on one line as JSON, which is valid YAML.
func formatFlowStyle(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "null"
	}
	return strings.TrimSuffix(out.String(), "\n")
}
