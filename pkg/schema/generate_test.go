package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
)

var update = flag.Bool("update", false, "rewrite the schemas")

// draft is the version that yaml-language-server supports best:
// https://github.com/redhat-developer/yaml-language-server#features
const draft = "http://json-schema.org/draft-07/schema#"

// object is a schema, or a part of one. encoding/json sorts its keys.
type object = map[string]any

// TestSchemasAreGenerated checks that the schemas match the types.
func TestSchemasAreGenerated(t *testing.T) {
	for name, want := range generate(t) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(want); err != nil {
			t.Fatal(err)
		}
		path := name + ".schema.json"
		got, err := os.ReadFile(path)
		if err == nil && bytes.Equal(got, b.Bytes()) {
			continue
		}
		if !*update {
			t.Errorf("%s is not what the types say: run go test ./pkg/schema -update (%v, -want +got):\n%.4000s", path, err, cmp.Diff(b.String(), string(got)))
			continue
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// generate generates every schema.
func generate(t *testing.T) map[string]object {
	t.Helper()
	g := generator{docs: docs(t, "../api/osm/v1alpha1", "../api/gitops/v1alpha1"), t: t}
	templates := templateDefinition(t)
	osp := g.profile()
	overlay := g.overlay()
	out := map[string]object{
		"osp":     document("OperatingSystemProfile", osp, templates),
		"overlay": document("ProfileOverlay", overlay, templates),
		"config":  configuration(t),
	}
	kinds := map[string]object{"OperatingSystemProfile": osp, "ProfileOverlay": overlay}
	out["repository"] = repository(kinds, templates)
	return out
}

// document is a schema with its definitions.
func document(title string, kind, templates object) object {
	out := object{"$schema": draft, "title": title, "definitions": object{"template": templates}}
	for k, v := range kind {
		out[k] = v
	}
	return out
}

// repository checks the kind: our files must match their schema, and any other YAML of a
// repository is accepted.
func repository(kinds map[string]object, templates object) object {
	definitions := object{"template": templates}
	var cases []object
	groups := map[string][]string{}
	for _, kind := range sorted(kinds) {
		definitions[kind] = kinds[kind]
		cases = append(cases, object{
			"if":   object{"required": []string{"kind"}, "properties": object{"kind": object{"const": kind}}},
			"then": object{"$ref": "#/definitions/" + kind},
		})
		apiVersion, _ := kinds[kind]["properties"].(object)["apiVersion"].(object)["const"].(string)
		groups[apiVersion] = append(groups[apiVersion], kind)
	}
	for _, group := range sorted(groups) {
		cases = append(cases, object{
			"if":   object{"required": []string{"apiVersion"}, "properties": object{"apiVersion": object{"const": group}}},
			"then": object{"required": []string{"kind"}, "properties": object{"kind": object{"enum": groups[group], "description": "What the document is."}}},
		})
	}
	return object{
		"$schema": draft, "title": "osm-gitops repository", "type": "object", "definitions": definitions, "allOf": cases,
		"description": "A file of a repository of profiles, by its kind: " + strings.Join(sorted(kinds), ", ") + ". Documents of other kinds are not looked at.",
	}
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// generator turns Go types into schemas that agree with the strict decoder of pkg/profile.
type generator struct {
	t    *testing.T
	docs map[string]comment // by "Type" and "Type.Field"
}

// profile is the schema of an OperatingSystemProfile. It accepts fields that the API server
// adds to an object, like the decoder.
func (g generator) profile() object {
	root := g.kind(osm.GroupVersion.String(), "OperatingSystemProfile", g.typ(reflect.TypeFor[osm.OperatingSystemProfileSpec]()))
	root["description"] = g.docs["OperatingSystemProfile"].text
	const written = "Written by the API server, and not read: a profile that was saved from a cluster has it."
	properties, _ := root["properties"].(object)
	properties["status"] = object{"description": written}
	metadata, _ := properties["metadata"].(object)["properties"].(object)
	for _, name := range strings.Fields(`creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName
		generation managedFields ownerReferences resourceVersion selfLink uid`) {
		metadata[name] = object{"description": written}
	}
	return root
}

// overlay is the schema of a ProfileOverlay.
func (g generator) overlay() object {
	root := g.typ(reflect.TypeFor[api.ProfileOverlay]())
	root["description"] = g.docs["ProfileOverlay"].text
	properties, _ := root["properties"].(object)
	for name, value := range map[string]string{"apiVersion": api.GroupVersion.String(), "kind": api.KindProfileOverlay} {
		field, _ := properties[name].(object)
		delete(field, "enum")
		field["const"] = value
	}
	return root
}

// configuration is the schema of .osm-gitops.yaml, which has no kind.
func configuration(t *testing.T) object {
	t.Helper()
	g := generator{docs: docs(t, "../api/osm/v1alpha1", "../lint"), t: t}
	root := g.typ(reflect.TypeFor[lint.ConfigFile]())
	root["$schema"], root["title"] = draft, lint.ConfigName
	root["description"] = strings.TrimPrefix(g.docs["ConfigFile"].text, "Config") // "File is .osm-gitops.yaml. ..."
	return root
}

// kind is the schema of an object in a file.
func (g generator) kind(apiVersion, kind string, spec object) object {
	text := func(description string) object {
		return object{"description": description, "type": []string{"object", "null"}, "additionalProperties": object{"type": []string{"string", "null"}}}
	}
	if spec["description"] == nil {
		spec["description"] = g.docs[kind+"Spec"].text
	}
	return object{
		"type": "object", "additionalProperties": false, "required": []string{"apiVersion", "kind", "metadata", "spec"},
		"properties": object{
			"apiVersion": object{"const": apiVersion, "description": "The group and version of the kind."},
			"kind":       object{"const": kind, "description": "What the document is."},
			"metadata": object{
				"type": "object", "additionalProperties": false, "required": []string{"name"},
				"description": "Name of the object, and whatever other tools keep there.",
				"properties": object{
					"name": object{
						"type": "string", "maxLength": 63, "pattern": dns1123,
						"description": "Name of the profile, without its version: pools name it in their annotation k8c.io/operating-system-profile.",
					},
					"namespace":   object{"type": []string{"string", "null"}, "description": "Not read: the profile goes into the namespace of its ProfileSource."},
					"labels":      text("Not read: the objects in the cluster carry labels of their own."),
					"annotations": text("Not read: the objects in the cluster carry annotations of their own."),
				},
			},
			"spec": spec,
		},
	}
}

// extra has the decoder's requirements for a field beyond its type (pkg/profile: validate).
var extra = map[string]object{
	"FileContent":                        {"required": []string{"inline"}},
	"FileReplacement.Permissions":        {"minimum": 0, "maximum": 7777},
	"ConfigLint.Shellcheck":              {"enum": []any{"auto", "require", "off"}},
	"ConfigLint.ShellcheckSeverity":      {"enum": []any{"error", "warning", "info", "style"}},
	"ConfigLint.Severity":                {"additionalProperties": object{"enum": []any{"error", "warning", "note"}}},
	"Suppression.Reason":                 {"pattern": `\S`},
	"Suppression.Until":                  {"pattern": `^\d{4}-\d{2}-\d{2}$`},
	"ProfileOverlayMetadata.Name":        {"pattern": dns1123},
	"ProfileOverlayBase.Version":         {"pattern": `^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)`},
	"File.Path":                          {"minLength": 1},
	"File.Permissions":                   {"minimum": 0, "maximum": 7777},
	"OperatingSystemProfileSpec.Version": {"pattern": `^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`},
}

// dns1123 is the name of an object: RFC 1123, as in Kubernetes.
const dns1123 = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`

// templated are the fields whose text is a template.
var templated = []string{"FileContentInline.Data"}

// typ is the schema of a type, without a description.
func (g generator) typ(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[runtime.RawExtension]():
		return object{}
	case t.Kind() == reflect.Pointer:
		return g.typ(t.Elem())
	case t.Kind() == reflect.Struct:
		out := object{"type": "object", "additionalProperties": false}
		properties := object{}
		g.fields(t, out, properties)
		out["properties"] = properties
		return out
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": g.typ(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": g.typ(t.Elem())}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return object{"type": "integer"}
	case t.Kind() == reflect.String:
		out := object{"type": "string"}
		g.docs[t.Name()].apply(out)
		return out
	}
	g.t.Fatalf("no schema for %s", t)
	return nil
}

// fields adds the fields of a struct. Fields without omitempty are required, as in the
// decoder.
func (g generator) fields(t reflect.Type, out, properties object) {
	var required []string
	for f := range fieldsOf(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := t.Name() + "." + f.Name
		if slices.Contains(templated, at) {
			properties[name] = object{"$ref": "#/definitions/template"}
			required = append(required, name)
			continue
		}
		s := g.typ(f.Type)
		doc := g.docs[at]
		if doc.text == "" {
			g.t.Errorf("%s has no comment", at)
		}
		s["description"] = doc.text
		if f.Type.Kind() == reflect.Map && (f.Name == "Templates" || t == reflect.TypeFor[api.TemplatePatches]()) {
			s["additionalProperties"] = object{"$ref": "#/definitions/template"}
		}
		doc.apply(s)
		for k, v := range extra[at] {
			s[k] = v
		}
		if strings.Contains(options, "omitempty") {
			nullable(s)
		} else {
			required = append(required, name)
		}
		properties[name] = s
	}
	if len(required) > 0 {
		out["required"] = required
	}
	for k, v := range extra[t.Name()] {
		out[k] = v
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "" || name == "-" {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

// nullable allows null, which the decoder treats as absent.
func nullable(s object) {
	name, ok := s["type"].(string)
	if !ok {
		return // any type, or a reference
	}
	s["type"] = []string{name, "null"}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(slices.Clone(values), nil)
	}
}

// comment is the comment of a type or field: its text, and the markers below it.
type comment struct {
	text    string
	markers []string
}

var marker = regexp.MustCompile(`^\+kubebuilder:(validation:(?:items:)?(Enum|Pattern|MinLength|MaxLength|Minimum|Maximum|MinItems|MaxItems|MinProperties)|default)=(.*)$`)

// apply adds the constraints of the markers.
func (c comment) apply(s object) {
	for _, line := range c.markers {
		m := marker.FindStringSubmatch(line)
		if m == nil || strings.Contains(m[1], "items:") {
			continue
		}
		value := m[3]
		switch m[2] {
		case "Enum":
			var values []any
			for v := range strings.SplitSeq(value, ";") {
				values = append(values, strings.Trim(v, `"`))
			}
			s["enum"] = values
		case "Pattern":
			s["pattern"] = strings.Trim(value, "`\"")
		default:
			name := m[2]
			if name == "" {
				name = "default"
			}
			s[strings.ToLower(name[:1])+name[1:]] = literal(value)
		}
	}
}

func literal(value string) any {
	if n, err := strconv.Atoi(value); err == nil {
		return n
	}
	return strings.Trim(value, `"`)
}

// docs reads the comments of the types in folders.
func docs(t *testing.T, dirs ...string) map[string]comment {
	t.Helper()
	out := map[string]comment{}
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(paths), err)
		}
		for _, path := range paths {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					addDocs(out, g)
				}
			}
		}
	}
	return out
}

func addDocs(out map[string]comment, g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		doc := spec.Doc
		if doc == nil {
			doc = g.Doc
		}
		out[spec.Name.Name] = read(doc)
		if fields, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					out[spec.Name.Name+"."+name.Name] = read(f.Doc)
				}
			}
		}
	}
}

func read(group *ast.CommentGroup) comment {
	var c comment
	var lines []string
	for line := range strings.SplitSeq(group.Text(), "\n") {
		if strings.HasPrefix(line, "+") {
			c.markers = append(c.markers, line)
			continue
		}
		lines = append(lines, line)
	}
	c.text = strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
	return c
}
