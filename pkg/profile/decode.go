package profile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// maxDocuments is the limit for YAML documents in one file.
const maxDocuments = 256

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

	// Lines are the lines of the fields; see Line.
	Lines strictyaml.Lines
	// Origins has the files of the fields whose text is not in Path; see FileOf.
	Origins map[string]string
}

// ID is what a profile is called in a file.
type ID struct{ Name, Version string }

// ID returns name and version.
func (d Document) ID() ID { return ID{d.Name, d.Spec.Version} }

// Line returns the line of the file on which the text of a field begins, starting at 1:
// for a block scalar the line after its "|". A field has the form
// "spec.bootstrapConfig.files[3].content.inline.data" or
// "spec.bootstrapConfig.templates[name]". For a field that is not in the file it returns
// the line of the nearest field above it. The file is Path, unless FileOf names another
// one.
func (d *Document) Line(field string) int { return d.Lines.Line(field) }

// FileOf returns the file with the text of a field if it is not Path: text that an
// overlay does not change is in the file of its base. A file that only an earlier commit
// has is "<12 hex>:<path>", as in Git; a built-in one is "builtin:<path>". "" means Path.
func (d *Document) FileOf(field string) string { return d.Origins[d.Lines.NearestWithLine(field)] }

// Position returns the file and the line of the n-th line of a field's text. The line is 0 if the
// document has no lines; n below 1 is the first.
func (d *Document) Position(field string, n int) (file string, line int) {
	if line = d.Line(field); line > 0 {
		line += max(n-1, 0)
	}
	return cmp.Or(d.FileOf(field), d.Path), line
}

// Files returns the files that FileOf names.
func (d *Document) Files() []string { return slices.Compact(slices.Sorted(maps.Values(d.Origins))) }

// Contents has the documents of one file, in the order of the file.
type Contents struct {
	// Profiles are complete profiles.
	Profiles []Document
	// Overlays each result in a profile when their base is known; see overlay.Apply.
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
		err = &strictyaml.Problem{Path: path, Line: in.Overlays[0].Line("kind"), Field: "kind", Err: errors.New("is a ProfileOverlay, which needs its base: use a complete profile here")}
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
	f := fileDecoder{ProblemList: strictyaml.ProblemList{Path: path}}
	if len(data) > strictyaml.MaxFileBytes {
		f.Add(0, "", fmt.Errorf("has %d bytes; at most %d are allowed in a profile file: split it", len(data), strictyaml.MaxFileBytes))
		return Contents{}, f.Err()
	}
	if i := strictyaml.InvalidTextOffset(data); i >= 0 {
		f.Add(1+bytes.Count(data[:i], []byte("\n")), "", errors.New("is not UTF-8 text: save it without control characters"))
		return Contents{}, f.Err()
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
			line, err := strictyaml.LocateSyntaxError(data, err)
			f.Add(line, "", err)
			break
		}
		if n == maxDocuments {
			f.Add(node.Line, "", fmt.Errorf("has more than %d documents: split it", maxDocuments))
			break
		}
		f.decodeDocument(&node, &in)
	}
	if err := f.Err(); err != nil {
		return Contents{}, err
	}
	return in, nil
}

// fileDecoder decodes the documents of one file.
type fileDecoder struct {
	strictyaml.ProblemList
	named map[ID]int // the line of each profile's name
}

// checkTwice reports a profile that an earlier document of the file also has.
func (f *fileDecoder) checkTwice(id ID, line int) {
	if first, ok := f.named[id]; ok {
		f.Add(line, "metadata.name", fmt.Errorf("profile %q %s is in this file twice, first on line %d: remove one of them", id.Name, id.Version, first))
		return
	}
	if f.named == nil {
		f.named = map[ID]int{}
	}
	f.named[id] = line
}

// kustomizeGroup is the group of kinds that a folder of profiles can contain and that
// this program does not read.
const kustomizeGroup = "kustomize.config.k8s.io/"

// ignoredKinds are the kinds, by group, that a repository of profiles can also contain: what
// follows the repository, and pools to render for. No profile is read from them.
var ignoredKinds = map[string][]string{
	api.GroupVersion.Group:     {"ProfileSource", "NodeProvenance", "BootReport"},
	osm.GroupVersion.Group:     {"OperatingSystemConfig"},
	cluster.GroupVersion.Group: {"MachineDeployment", "MachineSet", "Machine"},
}

// isOtherKnownKind reports whether a document is of a known kind that is neither a profile nor an
// overlay.
func isOtherKnownKind(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return slices.Contains(ignoredKinds[group], kind)
}

// decodeDocument reads one YAML document, if there is one and it is valid.
func (f *fileDecoder) decodeDocument(doc *yaml.Node, in *Contents) {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 || strictyaml.IsNull(doc.Content[0]) {
		return
	}
	in.Empty = false
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		f.Add(root.Line, "", errors.New("is not an OperatingSystemProfile: the document is not a mapping"))
		return
	}
	apiVersion, kind := strictyaml.Scalar(root, "apiVersion"), strictyaml.Scalar(root, "kind")
	switch {
	// A kustomization lists the profiles next to it.
	case strings.HasPrefix(apiVersion, kustomizeGroup):
	case apiVersion == osm.GroupVersion.String() && kind == kindProfile:
		f.decodeProfile(root, in)
	case apiVersion == api.GroupVersion.String() && kind == api.KindProfileOverlay:
		f.decodeOverlay(root, in)
	case isOtherKnownKind(apiVersion, kind):
		article := "a "
		if strings.HasPrefix(kind, "O") {
			article = "an "
		}
		in.Others = append(in.Others, Other{Kind: article + kind, Line: root.Line})
	case isRenderClusterFile(root):
		in.Others = append(in.Others, Other{Kind: "a cluster file of osm-gitops render", Line: root.Line})
	case kind == api.KindProfileOverlay:
		f.Add(root.Line, "", fmt.Errorf("is not a ProfileOverlay: expected apiVersion %q, found %q", api.GroupVersion.String(), apiVersion))
	case kind == kindProfile:
		f.Add(root.Line, "", fmt.Errorf("is not an OperatingSystemProfile: expected apiVersion %q, found %q", osm.GroupVersion.String(), apiVersion))
	case nearestKind(kind) != "":
		f.Add(root.Line, "kind", fmt.Errorf("unknown kind %q: did you mean %q?", kind, nearestKind(kind)))
	default:
		f.Add(root.Line, "", fmt.Errorf("is not an OperatingSystemProfile: expected apiVersion %q and kind %q, found %q and %q: store other files outside the source's path",
			osm.GroupVersion.String(), kindProfile, apiVersion, kind))
	}
}

// isRenderClusterFile reports whether a document is a file for osm-gitops render --cluster,
// which is not a manifest.
func isRenderClusterFile(root *yaml.Node) bool {
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
	for _, group := range slices.Sorted(maps.Keys(ignoredKinds)) {
		known = append(known, ignoredKinds[group]...)
	}
	if len(kind) > strictyaml.MaxFieldBytes {
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

// decodeProfile reads a complete profile.
func (f *fileDecoder) decodeProfile(root *yaml.Node, in *Contents) {
	before := f.Len()
	var obj manifest
	lines := strictyaml.Decode(root, &obj, &f.ProblemList)
	f.validate(lines, &obj)
	if f.Len() > before {
		return
	}
	spec := Canonical(obj.Spec)
	doc := Document{Name: obj.Metadata.Name, Spec: spec, Digest: Digest(spec), Path: f.Path, Lines: lines}
	f.checkTwice(doc.ID(), doc.Line("metadata.name"))
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

// newProblemReporter returns a function that reports a problem at the line of a field.
func (f *fileDecoder) newProblemReporter(lines strictyaml.Lines) reportProblem {
	return func(field, format string, args ...any) {
		f.Add(lines.Line(field), field, fmt.Errorf(format, args...))
	}
}

// validateName validates the name and version of a profile.
func validateName(report reportProblem, name, number string) {
	if name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			report("metadata.name", "invalid object name %q: %s", name, msg)
		}
		if len(name) > validation.LabelValueMaxLength {
			report("metadata.name", "has %d characters; it is used as a label value, which can have %d: shorten it", len(name), validation.LabelValueMaxLength)
		}
	}
	if number != "" {
		if _, err := version.Parse(number); err != nil {
			report("spec.version", "%v", err)
		} else if n := len(name) + 1 + 7 + len(number); n > validation.DNS1123SubdomainMaxLength {
			report("spec.version", "name and version result in an object name of %d characters, and at most %d are allowed: shorten one of them", n, validation.DNS1123SubdomainMaxLength)
		}
	}
}

// validate checks what the types cannot express.
func (f *fileDecoder) validate(lines strictyaml.Lines, obj *manifest) {
	report := f.newProblemReporter(lines)
	validateName(report, obj.Metadata.Name, obj.Spec.Version)
	stages := []struct {
		field string
		cfg   osm.OSPConfig
	}{{"spec.bootstrapConfig", obj.Spec.BootstrapConfig}, {"spec.provisioningConfig", obj.Spec.ProvisioningConfig}}
	for _, s := range stages {
		validateFiles(report, s.field+".files", s.cfg.Files)
		for i, rt := range s.cfg.SupportedContainerRuntimes {
			validateFiles(report, fmt.Sprintf("%s.supportedContainerRuntimes[%d].files", s.field, i), rt.Files)
		}
	}
}

func validateFiles(report reportProblem, field string, files []osm.File) {
	for i, file := range files {
		at := fmt.Sprintf("%s[%d]", field, i)
		requirePath(report, at, file.Path)
		requireInlineContent(report, at, &file.Content)
		validateMode(report, at, file.Permissions)
	}
}

func requirePath(report reportProblem, at, path string) {
	if path == "" {
		report(at+".path", "is empty: set the path of the file on the node")
	}
}

func requireInlineContent(report reportProblem, at string, content *osm.FileContent) {
	if content.Inline == nil {
		report(at+".content", "has no inline: set content.inline.data")
	}
}

func validateMode(report reportProblem, at string, p int32) {
	if p < 0 || p > 7777 || strings.ContainsAny(strconv.Itoa(int(p)), "89") {
		report(at+".permissions", "invalid file mode %d: write octal digits, from 0 to 7777", p)
	}
}

// Identify returns the names of the profiles in a rejected file, as far as it is valid
// YAML.
func Identify(data []byte) []ID {
	var out []ID
	if len(data) > strictyaml.MaxFileBytes || strictyaml.InvalidTextOffset(data) >= 0 {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for range maxDocuments {
		var node yaml.Node
		if dec.Decode(&node) != nil {
			break
		}
		if len(node.Content) != 1 || node.Content[0].Kind != yaml.MappingNode || !slices.Contains([]string{kindProfile, api.KindProfileOverlay}, strictyaml.Scalar(node.Content[0], "kind")) {
			continue
		}
		id := ID{strictyaml.Scalar(strictyaml.MappingOrEmpty(node.Content[0], "metadata"), "name"), strictyaml.Scalar(strictyaml.MappingOrEmpty(node.Content[0], "spec"), "version")}
		if _, err := version.Parse(id.Version); err == nil && id.Name != "" {
			out = append(out, id)
		}
	}
	return out
}
