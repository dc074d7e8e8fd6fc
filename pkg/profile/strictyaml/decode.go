package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// decoder fills a Go value from a YAML tree by its json tags. Unlike the strict mode of a
// YAML or JSON library, it records the line of every field, and continues after an error,
// so that one run reports all of them.
type decoder struct {
	problems *ProblemList
	lines    Lines
	expanded int // visited nodes; aliases count each time
}

func (d *decoder) problem(n *yaml.Node, field string, format string, args ...any) {
	d.problems.Add(n.Line, field, fmt.Errorf(format, args...))
}

// Decode decodes a document into a struct, and returns the lines of its fields.
func Decode(n *yaml.Node, into any, problems *ProblemList) Lines {
	d := decoder{problems: problems, lines: Lines{"": n.Line}}
	d.decodeValue(n, reflect.ValueOf(into).Elem(), "", 0)
	return d.lines
}

var rawExtensionType = reflect.TypeOf(runtime.RawExtension{})

func (d *decoder) decodeValue(n *yaml.Node, v reflect.Value, field string, depth int) {
	if !d.spendBudget(n, field, depth) {
		return
	}
	// The budget counts every visit, so that nested aliases end.
	if n.Kind == yaml.AliasNode {
		d.decodeValue(n.Alias, v, field, depth+1)
		return
	}
	if v.Type() == rawExtensionType {
		d.decodeFreeForm(n, v, field, depth)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if IsNull(n) {
			return
		}
		p := reflect.New(v.Type().Elem())
		d.decodeValue(n, p.Elem(), field, depth)
		v.Set(p)
	case reflect.Struct:
		d.decodeStruct(n, v, field, depth)
	case reflect.Slice:
		d.decodeList(n, v, field, depth)
	case reflect.Map:
		d.decodeMap(n, v, field, depth)
	default:
		d.decodeScalar(n, v, field)
	}
}

// spendBudget counts a node and reports whether decoding can continue.
func (d *decoder) spendBudget(n *yaml.Node, field string, depth int) bool {
	d.expanded++
	switch {
	case d.expanded > maxExpandedNodes:
		if d.expanded == maxExpandedNodes+1 {
			d.problem(n, field, "has more than %d values once its aliases are expanded", maxExpandedNodes)
		}
		return false
	case depth > maxDepth:
		d.problem(n, field, "is nested more than %d levels deep", maxDepth)
		return false
	}
	return true
}

// pair is one key of a mapping, with merge keys ("<<") resolved.
type pair struct{ key, value *yaml.Node }

// mappingPairs lists the keys of a mapping and reports duplicate keys.
func (d *decoder) mappingPairs(n *yaml.Node, field string, depth int) []pair {
	seen := map[string]*yaml.Node{}
	var pairs, merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" {
			merged = append(merged, d.expandMergeKey(v, field, depth+1)...)
			continue
		}
		if k.Kind != yaml.ScalarNode {
			d.problem(k, field, "has a key that is not text")
			continue
		}
		if first, ok := seen[k.Value]; ok {
			d.problem(k, joinFieldPath(field, k.Value), "is given twice, first on line %d", first.Line)
			continue
		}
		seen[k.Value] = k
		pairs = append(pairs, pair{k, v})
	}
	for _, p := range merged {
		if seen[p.key.Value] == nil {
			seen[p.key.Value] = p.key
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// expandMergeKey returns the pairs of the mappings that a merge key "<<" names.
func (d *decoder) expandMergeKey(n *yaml.Node, field string, depth int) []pair {
	if !d.spendBudget(n, field, depth) {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return d.expandMergeKey(n.Alias, field, depth+1)
	case yaml.MappingNode:
		return d.mappingPairs(n, field, depth)
	case yaml.SequenceNode:
		var out []pair
		for _, e := range n.Content {
			out = append(out, d.expandMergeKey(e, field, depth+1)...)
		}
		return out
	}
	d.problem(n, field, "merges a value that is not a mapping")
	return nil
}

// decodeStruct decodes a mapping into a struct, and reports unknown and missing fields.
func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, field string, depth int) {
	known := structFields(v.Type())
	present := map[string]bool{}
	if !IsNull(n) {
		if n.Kind != yaml.MappingNode {
			d.problem(n, field, "must be a mapping")
			return
		}
		for _, p := range d.mappingPairs(n, field, depth) {
			at := joinFieldPath(field, p.key.Value)
			i := slices.IndexFunc(known, func(f structField) bool { return f.name == p.key.Value })
			if i < 0 && slices.Contains(serverFields, at) {
				continue
			}
			if i < 0 {
				var names []string
				for _, f := range known {
					names = append(names, f.name)
				}
				d.problem(p.key, at, "is not a field of %s%s", fieldOrDocument(field), phrase.DidYouMean(p.key.Value, names))
				continue
			}
			f := known[i]
			d.lines[at] = textLine(p.value)
			if IsNull(p.value) && f.required {
				d.problem(p.value, at, "is null: set a value")
			}
			present[p.key.Value] = true
			d.decodeValue(p.value, v.Field(f.index), at, depth+1)
		}
	}
	for _, f := range known {
		if f.required && !present[f.name] {
			d.problem(n, joinFieldPath(field, f.name), "is required")
		}
	}
}

// serverFields are written into an object by the API server, and printed by "kubectl get
// -o yaml": a profile that was saved from a cluster has them. They are ignored.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/
var serverFields = []string{
	"metadata.creationTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.deletionTimestamp", "metadata.finalizers",
	"metadata.generateName", "metadata.generation", "metadata.managedFields", "metadata.ownerReferences",
	"metadata.resourceVersion", "metadata.selfLink", "metadata.uid", "status",
}

func (d *decoder) decodeList(n *yaml.Node, v reflect.Value, field string, depth int) {
	if IsNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.problem(n, field, "must be a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		at := Element(field, i)
		d.lines[at] = textLine(e)
		d.decodeValue(e, out.Index(i), at, depth+1)
	}
	v.Set(out)
}

func (d *decoder) decodeMap(n *yaml.Node, v reflect.Value, field string, depth int) {
	if IsNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n, field, "must be a mapping")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, p := range d.mappingPairs(n, field, depth) {
		at := field + "[" + p.key.Value + "]"
		d.lines[at] = textLine(p.value)
		e := reflect.New(v.Type().Elem()).Elem()
		d.decodeValue(p.value, e, at, depth+1)
		out.SetMapIndex(reflect.ValueOf(p.key.Value), e)
	}
	v.Set(out)
}

// enums lists the values of the API's enumerations.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[osm.OperatingSystem](): {"flatcar", "rhel", "ubuntu", "amzn2", "rockylinux"},
	reflect.TypeFor[osm.CloudProvider](): {"aws", "azure", "digitalocean", "edge", "gce", "hetzner", "kubevirt", "linode", "nutanix", "openstack",
		"vsphere", "fake", "alibaba", "anexia", "scaleway", "baremetal", "external", "vmware-cloud-director", "opennebula"},
	reflect.TypeFor[osm.ContainerRuntime]():    {"docker", "containerd"},
	reflect.TypeFor[osm.ProvisioningUtility](): {"cloud-init", "ignition"},
	reflect.TypeFor[api.ModuleKey]():           {"bootcmd", "rh_subscription", "runcmd", "yum_repos", "yum_repo_dir"},
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, field string) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, field, "must be a single value, of type %s", v.Kind())
		return
	}
	if IsNull(n) {
		return // like the API server: null means absent; a missing required field was already reported
	}
	switch v.Kind() {
	case reflect.String:
		if n.Tag != "!!str" && n.Tag != "!!timestamp" {
			if near := version.SuggestValid(n.Value); near != "" && (field == "version" || strings.HasSuffix(field, ".version")) {
				d.problem(n, field, "invalid version %s, which YAML reads as a number: write %s", n.Value, near)
				return
			}
			d.problem(n, field, "must be text, but YAML reads %s as a %s: quote it", n.Value, tagName(n.Tag))
			return
		}
		if allowed := enums[v.Type()]; allowed != nil && !slices.Contains(allowed, n.Value) {
			d.problem(n, field, "is %q, but must be one of %s", n.Value, strings.Join(allowed, ", "))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		var b bool
		if n.Tag != "!!bool" || n.Decode(&b) != nil {
			d.problem(n, field, "must be true or false, not %q", n.Value)
			return
		}
		v.SetBool(b)
	case reflect.Int32:
		i, err := strconv.ParseInt(n.Value, 10, 32)
		bad := strings.IndexAny(n.Value, "89")
		switch {
		case err == nil && n.Value[0] == '0' && bad >= 0:
			d.problem(n, field, "invalid file mode %s: %c is not an octal digit; write digits as for chmod, such as 644", n.Value, n.Value[bad])
		case err == nil && n.Tag == "!!str":
			d.problem(n, field, "must be an integer, but %q is text: write %d, without quotes", n.Value, i)
		case err != nil || n.Tag != "!!int":
			d.problem(n, field, "must be an integer, not %q", n.Value)
		case len(n.Value) > 1 && n.Value[0] == '0':
			d.problem(n, field, "YAML reads %s as octal: write the digits without a leading zero, %d", n.Value, i)
		default:
			v.SetInt(i)
		}
	default:
		d.problem(n, field, "cannot be read into a %s", v.Type())
	}
}

// decodeFreeForm decodes a value without a schema.
func (d *decoder) decodeFreeForm(n *yaml.Node, v reflect.Value, field string, depth int) {
	tree, ok := d.decodeUntyped(n, field, depth)
	if !ok {
		return
	}
	raw, err := rawExtension(tree)
	if err != nil {
		d.problem(n, field, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(*raw))
}

// decodeUntyped decodes a node without a schema, for free-form JSON.
func (d *decoder) decodeUntyped(n *yaml.Node, field string, depth int) (any, bool) {
	if !d.spendBudget(n, field, depth) {
		return nil, false
	}
	switch n.Kind {
	case yaml.AliasNode:
		return d.decodeUntyped(n.Alias, field, depth+1)
	case yaml.MappingNode:
		m := map[string]any{}
		for _, p := range d.mappingPairs(n, field, depth) {
			e, ok := d.decodeUntyped(p.value, joinFieldPath(field, p.key.Value), depth+1)
			if !ok {
				return nil, false
			}
			m[p.key.Value] = e
		}
		return m, true
	case yaml.SequenceNode:
		l := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			e, ok := d.decodeUntyped(c, field+"["+strconv.Itoa(i)+"]", depth+1)
			if !ok {
				return nil, false
			}
			l = append(l, e)
		}
		return l, true
	}
	var s any
	if err := n.Decode(&s); err != nil {
		d.problem(n, field, "%v", err)
		return nil, false
	}
	return s, true
}

type structField struct {
	name     string
	index    int
	required bool
}

// structFields returns the fields of a struct with their json names. A field without omitempty
// is required, as in the generated schema.
func structFields(t reflect.Type) []structField {
	var out []structField
	for i := range t.NumField() {
		name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out = append(out, structField{name, i, !strings.Contains(opts, "omitempty")})
		}
	}
	return out
}

// textLine returns the line on which the text of a value begins.
func textLine(n *yaml.Node) int {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Line + 1
	}
	return n.Line
}

func joinFieldPath(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// fieldOrDocument returns a field for a message; "the document" for the top level.
func fieldOrDocument(field string) string {
	if field == "" {
		return "the document"
	}
	return field
}

func tagName(tag string) string {
	switch tag {
	case "!!int", "!!float":
		return "number"
	case "!!bool":
		return "boolean"
	}
	return strings.TrimPrefix(tag, "!!")
}
