package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"github.com/agext/levenshtein"
	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Limits on one file. A profile is a few dozen files of a few KiB; the default
// ones have under 30 KiB.
const (
	maxFileBytes     = 1 << 20 // 1 MiB, what etcd takes for one object is 1.5 MiB
	maxDocuments     = 256     // YAML documents in one file
	maxExpandedNodes = 200_000 // YAML nodes of one document with aliases expanded
	maxDepth         = 64      // levels of nesting
	maxProblems      = 50      // named in one file; nobody reads more at once
	maxMessageBytes  = 1000    // of one problem, which may quote a megabyte
	maxFieldBytes    = 250     // of a field's name
)

// Document is one profile in a file.
type Document struct {
	// Name of the profile, metadata.name.
	Name string
	// Spec is canonical: defaults are filled in.
	Spec osm.OperatingSystemProfileSpec
	// Digest of Spec, as Digest returns it.
	Digest string
	// Path of the file, of an overlay's profile that of the overlay.
	Path string

	lines map[string]int
	files map[string]string // field -> file, where the text is in another one than Path
}

// Line returns the line of the file on which the text of a field begins, 1 being
// the first: for a block scalar the line after its "|". A field is written as in
// "spec.bootstrapConfig.files[3].content.inline.data" and
// "spec.bootstrapConfig.templates[name]". Of a field that is not in the file it
// returns the line of the nearest one above it. The file is Path, unless FileOf
// names another.
func (d *Document) Line(field string) int { return d.lines[nearestField(d.lines, field)] }

// FileOf returns the file in which the text of a field is, where that is another one
// than Path: what an overlay leaves as it is, is in the base's. A file that only an
// earlier commit has is "<12 hex>:<path>", as Git writes it, a built-in one
// "builtin:<path>". "" is Path.
func (d *Document) FileOf(field string) string { return d.files[nearestField(d.lines, field)] }

// nearestField is a field, or the nearest one above it that has a line.
func nearestField(lines map[string]int, field string) string {
	for field != "" {
		if _, ok := lines[field]; ok {
			break
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return field
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Path of the file.
	Path string
	// Line in it, 1 being the first; 0 when the whole file is meant.
	Line int
	// Field, such as "spec.version"; empty when the file is no YAML.
	Field string
	// Err says what is wrong and what to do.
	Err error
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Path)
	if p.Line > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(p.Line))
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(redact.Excerpt(p.Field, maxFieldBytes))
		b.WriteString(": ")
	}
	b.WriteString(redact.Excerpt(p.Err.Error(), maxMessageBytes))
	return b.String()
}

func (p *Problem) Unwrap() error { return p.Err }

// Problems returns the problems in an error of Decode, in the order of the file.
func Problems(err error) []*Problem {
	var out []*Problem
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // this is the walk over the tree that errors.As would hide
		case nil:
		case *Problem:
			out = append(out, e)
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				walk(err)
			}
		}
	}
	walk(err)
	return out
}

// Contents is what one file holds, each in the order of the file.
type Contents struct {
	// Profiles are those in full.
	Profiles []Document
	// Overlays come to a profile each once their base is known; see Resolve.
	Overlays []Overlay
	// Others are the documents of other known kinds, which are passed over.
	Others []Other
	// Empty says that the file has no document: nothing, or comments only.
	Empty bool
}

// Other is a document of a kind that a repository of profiles may hold beside them.
type Other struct {
	// Kind completes the sentence "it is ...", such as "a ProfileSource".
	Kind string
	// Line on which it begins.
	Line int
}

// Decode reads every profile in a file that holds no ProfileOverlay. For the rest see
// DecodeFile.
func Decode(path string, data []byte) ([]Document, error) {
	in, err := DecodeFile(path, data)
	if err == nil && len(in.Overlays) > 0 {
		err = &Problem{Path: path, Line: in.Overlays[0].Line("kind"), Field: "kind", Err: errors.New("is a ProfileOverlay, which is nothing without its base: only profiles in full can be read here")}
		return nil, err
	}
	return in.Profiles, err
}

// DecodeFile reads every profile and every ProfileOverlay in a file: strictly, so that
// a misspelt or repeated field is an error, and whole, so that the error names all
// that is wrong. The error is one or more *Problem joined; see Problems. Passed over are
// empty documents, kustomize's own, and manifests that a repository of profiles has
// beside them; see Contents.Others.
func DecodeFile(path string, data []byte) (Contents, error) {
	f := file{path: path}
	if len(data) > maxFileBytes {
		f.problem(0, "", fmt.Errorf("has %d bytes; a profile file may have %d: split it", len(data), maxFileBytes))
		return Contents{}, f.err()
	}
	if i := invalidText(data); i >= 0 {
		f.problem(1+bytes.Count(data[:i], []byte("\n")), "", errors.New("is not text in UTF-8: save it without control characters"))
		return Contents{}, f.err()
	}
	in := Contents{Empty: true}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for n := 0; ; n++ {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, err := syntaxError(data, err)
			f.problem(line, "", err)
			break
		}
		if n == maxDocuments {
			f.problem(node.Line, "", fmt.Errorf("has more than %d documents: split it", maxDocuments))
			break
		}
		f.document(&node, &in)
	}
	if len(f.problems) > 0 {
		return Contents{}, f.err()
	}
	return in, nil
}

// checkTwice reports a profile that an earlier document of the file has too.
func (f *file) checkTwice(k key, line int) {
	if first, ok := f.named[k]; ok {
		f.problem(line, "metadata.name", fmt.Errorf("profile %q %s stands in this file twice, first on line %d", k.name, k.version, first))
		return
	}
	if f.named == nil {
		f.named = map[key]int{}
	}
	f.named[k] = line
}

// file collects what is wrong with one file.
type file struct {
	path     string
	problems []error
	named    map[key]int // the line of each profile's name
}

func (f *file) problem(line int, field string, err error) {
	if len(f.problems) > maxProblems {
		return
	}
	if len(f.problems) == maxProblems {
		field, err = "", errors.New("more is wrong from here on: mend what is named above first")
	}
	f.problems = append(f.problems, &Problem{Path: f.path, Line: line, Field: field, Err: err})
}

func (f *file) err() error { return errors.Join(f.problems...) }

// invalidText returns the offset of the first byte that is no UTF-8 text, else
// -1. A byte order mark is accepted by the parser.
func invalidText(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 || r == 0 {
			return i
		}
		i += size
	}
	return -1
}

// nestedDeeply tells a text that may have far more levels than any profile: by
// brackets that are open at once, or by what a line begins with.
func nestedDeeply(data []byte) bool {
	const most = 4 * maxDepth
	open, lead, leading := 0, 0, true
	for _, c := range data {
		switch c {
		case '\n':
			lead, leading = 0, true
			continue
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		}
		if leading = leading && strings.IndexByte(" -?:", c) >= 0; leading {
			lead++
		}
		if open > most || lead > most {
			return true
		}
	}
	return false
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxError finds the line of a syntax error. The parser that reads profiles
// names the line on which the innermost mapping begins; another one names the
// line of the slip, so it is asked once something is wrong.
func syntaxError(data []byte, err error) (int, error) {
	var syntax goyaml.Error
	if nestedDeeply(data) {
		// The other parser has no limit: 300,000 times "[" kept it busy for minutes.
	} else if _, where := parser.ParseBytes(data, 0); errors.As(where, &syntax) && syntax.GetToken() != nil {
		message := syntax.GetMessage()
		if strings.Contains(message, "\t") || strings.Contains(message, "tab character") {
			message = "a tab stands where YAML wants spaces: indent the line with spaces" // a tab looks like them
		}
		return syntax.GetToken().Position.Line, fmt.Errorf("is no YAML: %s", message)
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, fmt.Errorf("is no YAML: %w", err)
	}
	line, _ := strconv.Atoi(m[1]) // empty where the parser names none
	return line, fmt.Errorf("is no YAML: %s", strings.TrimPrefix(err.Error(), m[0]))
}

// kustomizeGroup is of kinds that a folder of profiles may hold and that are not ours to
// read.
const kustomizeGroup = "kustomize.config.k8s.io/"

// others are the kinds beside profiles that a repository of them may hold, by group: who
// follows it, and the pools to render for. Neither is anything to a ProfileSource.
var others = map[string][]string{
	api.GroupVersion.Group:     {"ProfileSource", "NodeProvenance"},
	osm.GroupVersion.Group:     {"OperatingSystemConfig"},
	cluster.GroupVersion.Group: {"MachineDeployment", "MachineSet", "Machine"},
}

// isOther reports whether a document is of another known kind.
func isOther(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return slices.Contains(others[group], kind)
}

// document reads one YAML document, unless there is none or something is wrong with it.
func (f *file) document(doc *yaml.Node, in *Contents) {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return
	}
	in.Empty = false
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		f.problem(root.Line, "", errors.New("is no OperatingSystemProfile: the document is not a mapping"))
		return
	}
	apiVersion, kind := scalarField(root, "apiVersion"), scalarField(root, "kind")
	switch {
	case strings.HasPrefix(apiVersion, kustomizeGroup):
	case apiVersion == osm.GroupVersion.String() && kind == kindProfile:
		f.profile(root, in)
	case apiVersion == api.GroupVersion.String() && kind == api.KindProfileOverlay:
		f.overlay(root, in)
	case isOther(apiVersion, kind):
		article := "a "
		if strings.HasPrefix(kind, "O") {
			article = "an "
		}
		in.Others = append(in.Others, Other{Kind: article + kind, Line: root.Line})
	case isClusterFile(root):
		in.Others = append(in.Others, Other{Kind: "a cluster file of osm-gitops render", Line: root.Line})
	case kind == api.KindProfileOverlay:
		f.problem(root.Line, "", fmt.Errorf("is no ProfileOverlay: apiVersion %q stands where %q belongs", apiVersion, api.GroupVersion.String()))
	case kind == kindProfile:
		f.problem(root.Line, "", fmt.Errorf("is no OperatingSystemProfile: apiVersion %q stands where %q belongs", apiVersion, osm.GroupVersion.String()))
	case nearestKind(kind) != "":
		f.problem(root.Line, "kind", fmt.Errorf("%q is no kind that belongs here: did you mean %q?", kind, nearestKind(kind)))
	default:
		f.problem(root.Line, "", fmt.Errorf("is no OperatingSystemProfile: apiVersion %q and kind %q stand where %q and %q belong; keep other files outside the source's path",
			apiVersion, kind, osm.GroupVersion.String(), kindProfile))
	}
}

// isClusterFile reports whether a document is a file as osm-gitops render --cluster reads
// it, which is no manifest.
func isClusterFile(root *yaml.Node) bool {
	known := 0
	for i := 0; i+1 < len(root.Content); i += 2 {
		if !slices.Contains([]string{"settings", "cluster", "profile"}, root.Content[i].Value) {
			return false
		}
		if root.Content[i].Value != "profile" {
			known++
		}
	}
	return known > 0
}

// nearestKind is the kind that was probably meant; "" for none.
func nearestKind(kind string) string {
	best, bestDistance := "", 4 // three slips of the finger at most
	known := []string{kindProfile, api.KindProfileOverlay}
	for _, group := range slices.Sorted(maps.Keys(others)) {
		known = append(known, others[group]...)
	}
	if len(kind) > maxFieldBytes {
		return ""
	}
	for _, k := range known {
		if n := levenshtein.Distance(strings.ToLower(kind), strings.ToLower(k), nil); n < bestDistance && n < len(k)/2 && kind != k {
			best, bestDistance = k, n
		}
	}
	return best
}

// kindProfile is the kind of a profile in full.
const kindProfile = "OperatingSystemProfile"

// profile reads a profile in full.
func (f *file) profile(root *yaml.Node, in *Contents) {
	before := len(f.problems)
	var obj manifest
	d := decoder{file: f, lines: map[string]int{"": root.Line}}
	d.object(root, &obj)
	f.validate(&d, &obj)
	if len(f.problems) > before {
		return
	}
	spec := Canonical(obj.Spec)
	doc := Document{Name: obj.Metadata.Name, Spec: spec, Digest: Digest(spec), Path: f.path, lines: d.lines}
	f.checkTwice(key{doc.Name, spec.Version}, doc.Line("metadata.name"))
	in.Profiles = append(in.Profiles, doc)
}

// manifest is what a profile's file may hold. Labels and annotations are read
// and left behind: what we create carries our own.
type manifest struct {
	APIVersion string                         `json:"apiVersion"`
	Kind       string                         `json:"kind"`
	Metadata   manifestMetadata               `json:"metadata"`
	Spec       osm.OperatingSystemProfileSpec `json:"spec"`
}

type manifestMetadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// say reports a problem with a field.
type say func(field, format string, args ...any)

// sayer is the say of what a decoder has read.
func (f *file) sayer(d *decoder) say {
	return func(field, format string, args ...any) {
		f.problem(d.lines[nearestField(d.lines, field)], field, fmt.Errorf(format, args...))
	}
}

// validateName checks the name and version of a profile.
func validateName(say say, name, version string) {
	if name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			say("metadata.name", "%q is no object name: %s", name, msg)
		}
		if len(name) > validation.LabelValueMaxLength {
			say("metadata.name", "has %d characters; it becomes a label value, which may have %d", len(name), validation.LabelValueMaxLength)
		}
	}
	if version != "" {
		if _, err := ParseVersion(version); err != nil {
			say("spec.version", "%v", err)
		} else if n := len(name) + 1 + 7 + len(version); n > validation.DNS1123SubdomainMaxLength {
			say("spec.version", "name and version make an object name of %d characters; it may have %d", n, validation.DNS1123SubdomainMaxLength)
		}
	}
}

// validate checks what the types cannot say.
func (f *file) validate(d *decoder, obj *manifest) {
	say := f.sayer(d)
	validateName(say, obj.Metadata.Name, obj.Spec.Version)
	stages := []struct {
		field string
		cfg   osm.OSPConfig
	}{{"spec.bootstrapConfig", obj.Spec.BootstrapConfig}, {"spec.provisioningConfig", obj.Spec.ProvisioningConfig}}
	for _, s := range stages {
		validateFiles(say, s.field+".files", s.cfg.Files)
		for i, rt := range s.cfg.SupportedContainerRuntimes {
			validateFiles(say, fmt.Sprintf("%s.supportedContainerRuntimes[%d].files", s.field, i), rt.Files)
		}
	}
}

func validateFiles(say say, field string, files []osm.File) {
	for i, file := range files {
		at := fmt.Sprintf("%s[%d]", field, i)
		validatePath(say, at, file.Path)
		validateContent(say, at, &file.Content)
		validateMode(say, at, file.Permissions)
	}
}

func validatePath(say say, at, path string) {
	if path == "" {
		say(at+".path", "is empty: name the file's path on the node")
	}
}

func validateContent(say say, at string, content *osm.FileContent) {
	if content.Inline == nil {
		say(at+".content", "has no inline: write content.inline.data, the only source of content")
	}
}

func validateMode(say say, at string, p int32) {
	if p < 0 || p > 7777 || strings.ContainsAny(strconv.Itoa(int(p)), "89") {
		say(at+".permissions", "%d is no file mode: its digits are read as octal, from 0 to 7777", p)
	}
}

// versionPattern is the schema's pattern (contract: section 1.2), anchored at
// both ends: a version also names an object and is put in order.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)

// shortVersion is what people write for a version that has three numbers and a "v".
var shortVersion = regexp.MustCompile(`^[vV]?((?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){0,2})$`)

// nearestVersion is the version that was probably meant, "v1.0.0" of "1.0"; "" for none.
func nearestVersion(text string) string {
	const most = 32 // characters of a version that a person meant
	m := shortVersion.FindStringSubmatch(text)
	if m == nil || len(text) > most {
		return ""
	}
	return "v" + m[1] + strings.Repeat(".0", 2-strings.Count(m[1], "."))
}

// ParseVersion reads a profile's version, such as "v1.9.0" or "v1.9.0-rc.1".
func ParseVersion(v string) (*semver.Version, error) {
	if !versionPattern.MatchString(v) {
		if near := nearestVersion(v); near != "" {
			return nil, fmt.Errorf("%q is no version: write %s", v, near)
		}
		return nil, fmt.Errorf("%q is no version: write one like \"v1.2.3\" or \"v1.2.3-rc.1\"", v)
	}
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(v, "v"))
	if err != nil {
		return nil, fmt.Errorf("%q is no version: %w", v, err)
	}
	return parsed, nil
}

// identify names the profiles of a file that cannot be taken, as far as it is YAML.
func identify(data []byte) []key {
	var out []key
	if len(data) > maxFileBytes || invalidText(data) >= 0 {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for range maxDocuments {
		var node yaml.Node
		if dec.Decode(&node) != nil {
			break
		}
		if len(node.Content) != 1 || node.Content[0].Kind != yaml.MappingNode || !slices.Contains([]string{kindProfile, api.KindProfileOverlay}, scalarField(node.Content[0], "kind")) {
			continue
		}
		k := key{scalarField(mappingField(node.Content[0], "metadata"), "name"), scalarField(mappingField(node.Content[0], "spec"), "version")}
		if _, err := ParseVersion(k.version); err == nil && k.name != "" {
			out = append(out, k)
		}
	}
	return out
}

// mappingField returns a field that is a mapping, an empty one when it is none.
func mappingField(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name && m.Content[i+1].Kind == yaml.MappingNode {
			return m.Content[i+1]
		}
	}
	return &yaml.Node{}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// scalarField returns the text of a top-level field, "" when it is absent.
func scalarField(m *yaml.Node, name string) string {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name && m.Content[i+1].Kind == yaml.ScalarNode {
			return m.Content[i+1].Value
		}
	}
	return ""
}
