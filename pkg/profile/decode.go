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

// Limits on one file. A profile has a few dozen files of a few KiB; the built-in ones
// have less than 30 KiB in total.
const (
	maxFileBytes     = 1 << 20 // 1 MiB, what etcd takes for one object is 1.5 MiB
	maxDocuments     = 256     // YAML documents in one file
	maxExpandedNodes = 200_000 // YAML nodes of one document with aliases expanded
	maxDepth         = 64      // levels of nesting
	maxProblems      = 50      // listed per file; longer lists are not read
	maxMessageBytes  = 1000    // per problem, which can quote a megabyte
	maxFieldBytes    = 250     // of the name of a field
)

// Document is one profile of a file.
type Document struct {
	// Name of the profile, metadata.name.
	Name string
	// Spec is canonical: defaults are filled in.
	Spec osm.OperatingSystemProfileSpec
	// Digest of Spec, as Digest returns it.
	Digest string
	// Path of the file; for the profile of an overlay that of the overlay.
	Path string

	lines map[string]int
	files map[string]string // field -> file, if the text is not in Path
}

// Line returns the line of the file on which the text of a field begins, starting at 1:
// for a block scalar the line after its "|". A field has the form
// "spec.bootstrapConfig.files[3].content.inline.data" or
// "spec.bootstrapConfig.templates[name]". For a field that is not in the file it returns
// the line of the nearest field above it. The file is Path, unless FileOf names another
// one.
func (d *Document) Line(field string) int { return d.lines[nearestField(d.lines, field)] }

// FileOf returns the file with the text of a field if it is not Path: text that an
// overlay does not change is in the file of its base. A file that only an earlier commit
// has is "<12 hex>:<path>", as in Git; a built-in one is "builtin:<path>". "" means Path.
func (d *Document) FileOf(field string) string { return d.files[nearestField(d.lines, field)] }

// Files returns the files that FileOf names.
func (d *Document) Files() []string { return slices.Compact(slices.Sorted(maps.Values(d.files))) }

// nearestField returns the field, or the nearest one above it that has a line.
func nearestField(lines map[string]int, field string) string {
	for field != "" {
		if _, ok := lines[field]; ok {
			break
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return field
}

// ErrSyntax is the Err of a Problem of a file that is not YAML.
var ErrSyntax = errors.New("invalid YAML")

// Problem is one problem of a file.
type Problem struct {
	// Path of the file.
	Path string
	// Line in it, starting at 1; 0 for the whole file.
	Line int
	// Field, such as "spec.version"; empty if the file is not valid YAML.
	Field string
	// Err says what is wrong and how to fix it.
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

// Contents has the documents of one file, in the order of the file.
type Contents struct {
	// Profiles are complete profiles.
	Profiles []Document
	// Overlays each result in a profile when their base is known; see Resolve.
	Overlays []Overlay
	// Others are documents of other known kinds, which are ignored.
	Others []Other
	// Empty reports whether the file has no document: nothing, or only comments.
	Empty bool
}

// Other is a document of another kind that a repository of profiles can contain.
type Other struct {
	// Kind completes the sentence "it is ...", such as "a ProfileSource".
	Kind string
	// Line on which it begins.
	Line int
}

// Decode reads every profile of a file without ProfileOverlays. Use DecodeFile for other
// files.
func Decode(path string, data []byte) ([]Document, error) {
	in, err := DecodeFile(path, data)
	if err == nil && len(in.Overlays) > 0 {
		err = &Problem{Path: path, Line: in.Overlays[0].Line("kind"), Field: "kind", Err: errors.New("is a ProfileOverlay, which needs its base: use a complete profile here")}
		return nil, err
	}
	return in.Profiles, err
}

// DecodeFile reads every profile and every ProfileOverlay of a file. It is strict: a
// misspelled or repeated field is an error. It continues after an error, so that the
// error lists all problems: it is one or more *Problem joined; see Problems. Empty
// documents, those of kustomize, and manifests that a repository of profiles can also
// contain are ignored; see Contents.Others.
func DecodeFile(path string, data []byte) (Contents, error) {
	f := file{path: path}
	if len(data) > maxFileBytes {
		f.problem(0, "", fmt.Errorf("has %d bytes; at most %d are allowed in a profile file: split it", len(data), maxFileBytes))
		return Contents{}, f.err()
	}
	if i := invalidText(data); i >= 0 {
		f.problem(1+bytes.Count(data[:i], []byte("\n")), "", errors.New("is not UTF-8 text: save it without control characters"))
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
			// After invalid YAML the decoder cannot find the next document.
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

// checkTwice reports a profile that an earlier document of the file also has.
func (f *file) checkTwice(k key, line int) {
	if first, ok := f.named[k]; ok {
		f.problem(line, "metadata.name", fmt.Errorf("profile %q %s is in this file twice, first on line %d: remove one of them", k.name, k.version, first))
		return
	}
	if f.named == nil {
		f.named = map[key]int{}
	}
	f.named[k] = line
}

// file collects the problems of one file.
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
		field, err = "", errors.New("more problems follow: fix those above first")
	}
	f.problems = append(f.problems, &Problem{Path: f.path, Line: line, Field: field, Err: err})
}

func (f *file) err() error { return errors.Join(f.problems...) }

// invalidText returns the offset of the first byte that is not valid UTF-8 text, or -1.
// The parser accepts a byte order mark.
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

// nestedDeeply reports whether a text can have far more levels than any profile: by the
// number of brackets open at once, or by the beginning of a line.
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

// syntaxError returns the line of a syntax error. The parser that reads profiles names
// the line on which the innermost mapping begins; another parser names the exact line, so
// it is used after an error.
func syntaxError(data []byte, err error) (int, error) {
	var syntax goyaml.Error
	if nestedDeeply(data) {
		// The other parser has no nesting limit: 300,000 times "[" took minutes.
	} else if _, where := parser.ParseBytes(data, 0); errors.As(where, &syntax) && syntax.GetToken() != nil {
		message := syntax.GetMessage()
		if strings.Contains(message, "\t") || strings.Contains(message, "tab character") {
			message = "found a tab: YAML requires spaces for indentation" // a tab looks like them
		}
		return syntax.GetToken().Position.Line, fmt.Errorf("%w: %s", ErrSyntax, message)
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	line, _ := strconv.Atoi(m[1]) // empty if the parser names no line
	return line, fmt.Errorf("%w: %s", ErrSyntax, strings.TrimPrefix(err.Error(), m[0]))
}

// kustomizeGroup is the group of kinds that a folder of profiles can contain and that
// this program does not read.
const kustomizeGroup = "kustomize.config.k8s.io/"

// others are the kinds, by group, that a repository of profiles can also contain: what
// follows the repository, and pools to render for. A ProfileSource ignores both.
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

// document reads one YAML document, if there is one and it is valid.
func (f *file) document(doc *yaml.Node, in *Contents) {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return
	}
	in.Empty = false
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		f.problem(root.Line, "", errors.New("is not an OperatingSystemProfile: the document is not a mapping"))
		return
	}
	apiVersion, kind := scalarField(root, "apiVersion"), scalarField(root, "kind")
	switch {
	// A kustomization lists the profiles next to it.
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
		f.problem(root.Line, "", fmt.Errorf("is not a ProfileOverlay: expected apiVersion %q, found %q", api.GroupVersion.String(), apiVersion))
	case kind == kindProfile:
		f.problem(root.Line, "", fmt.Errorf("is not an OperatingSystemProfile: expected apiVersion %q, found %q", osm.GroupVersion.String(), apiVersion))
	case nearestKind(kind) != "":
		f.problem(root.Line, "kind", fmt.Errorf("unknown kind %q: did you mean %q?", kind, nearestKind(kind)))
	default:
		f.problem(root.Line, "", fmt.Errorf("is not an OperatingSystemProfile: expected apiVersion %q and kind %q, found %q and %q: store other files outside the source's path",
			osm.GroupVersion.String(), kindProfile, apiVersion, kind))
	}
}

// isClusterFile reports whether a document is a file for osm-gitops render --cluster,
// which is not a manifest.
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

// nearestKind returns the kind that was probably meant; "" for none.
func nearestKind(kind string) string {
	best, bestDistance := "", 4 // three typing errors at most
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

// kindProfile is the kind of a complete profile.
const kindProfile = "OperatingSystemProfile"

// profile reads a complete profile.
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

// manifest is the content of a profile's file. Labels and annotations are read and
// discarded: the objects that we create have our own.
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

// reportProblem reports a problem of a field.
type reportProblem func(field, format string, args ...any)

// sayer returns the say of the fields that a decoder has read.
func (f *file) sayer(d *decoder) reportProblem {
	return func(field, format string, args ...any) {
		f.problem(d.lines[nearestField(d.lines, field)], field, fmt.Errorf(format, args...))
	}
}

// validateName validates the name and version of a profile.
func validateName(say reportProblem, name, version string) {
	if name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			say("metadata.name", "invalid object name %q: %s", name, msg)
		}
		if len(name) > validation.LabelValueMaxLength {
			say("metadata.name", "has %d characters; it is used as a label value, which can have %d: shorten it", len(name), validation.LabelValueMaxLength)
		}
	}
	if version != "" {
		if _, err := ParseVersion(version); err != nil {
			say("spec.version", "%v", err)
		} else if n := len(name) + 1 + 7 + len(version); n > validation.DNS1123SubdomainMaxLength {
			say("spec.version", "name and version result in an object name of %d characters, and at most %d are allowed: shorten one of them", n, validation.DNS1123SubdomainMaxLength)
		}
	}
}

// validate checks what the types cannot express.
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

func validateFiles(say reportProblem, field string, files []osm.File) {
	for i, file := range files {
		at := fmt.Sprintf("%s[%d]", field, i)
		validatePath(say, at, file.Path)
		validateContent(say, at, &file.Content)
		validateMode(say, at, file.Permissions)
	}
}

func validatePath(say reportProblem, at, path string) {
	if path == "" {
		say(at+".path", "is empty: set the path of the file on the node")
	}
}

func validateContent(say reportProblem, at string, content *osm.FileContent) {
	if content.Inline == nil {
		say(at+".content", "has no inline: set content.inline.data")
	}
}

func validateMode(say reportProblem, at string, p int32) {
	if p < 0 || p > 7777 || strings.ContainsAny(strconv.Itoa(int(p)), "89") {
		say(at+".permissions", "invalid file mode %d: write octal digits, from 0 to 7777", p)
	}
}

// versionPattern is the pattern of the schema (contract: section 1.2), anchored at both
// ends: versions are also used in object names and are ordered.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)

// shortVersion matches versions with fewer than three numbers or without "v".
var shortVersion = regexp.MustCompile(`^[vV]?((?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){0,2})$`)

// nearestVersion returns the version that was probably meant, "v1.0.0" for "1.0"; "" for
// none.
func nearestVersion(text string) string {
	const most = 32 // characters of a mistyped version
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
			return nil, fmt.Errorf("invalid version %q: write %s", v, near)
		}
		return nil, fmt.Errorf("invalid version %q: write one such as \"v1.2.3\" or \"v1.2.3-rc.1\"", v)
	}
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(v, "v"))
	if err != nil {
		return nil, fmt.Errorf("invalid version %q: %w", v, err)
	}
	return parsed, nil
}

// identify returns the names of the profiles in a rejected file, as far as it is valid
// YAML.
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

// mappingField returns a field that is a mapping, or an empty mapping.
func mappingField(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name && m.Content[i+1].Kind == yaml.MappingNode {
			return m.Content[i+1]
		}
	}
	return &yaml.Node{}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// scalarField returns the text of a top-level field, "" if it is absent.
func scalarField(m *yaml.Node, name string) string {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name && m.Content[i+1].Kind == yaml.ScalarNode {
			return m.Content[i+1].Value
		}
	}
	return ""
}
