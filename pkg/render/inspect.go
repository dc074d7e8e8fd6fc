package render

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// Inspector renders a profile like Engine, and also records which branches of the templates
// were executed, and the origin of each line of a file in the profile. It is for authors of
// profiles. One goroutine at a time can use it.
type Inspector struct {
	spec     osm.OperatingSystemProfileSpec
	compiled *compiled
	marks    *templates.Marks
}

// NewInspector compiles a profile.
func NewInspector(p Profile) *Inspector {
	i := &Inspector{spec: p.Spec, marks: templates.NewMarks()}
	i.compiled = compile(&i.spec, i.marks)
	return i
}

// Branches returns all branches of the profile's templates with their hits so far, always in
// the same order.
func (i *Inspector) Branches() []Branch { return i.marks.Branches() }

// Branch is one branch of an if, with or range of a profile's templates.
type Branch = templates.Branch

// LineOrigin is the origin of one line of a rendered file.
type LineOrigin = templates.LineOrigin

// Inspection is one rendering, with placeholders in place of credentials.
type Inspection struct {
	Bootstrap, Provisioning InspectedStage
}

// InspectedStage is one stage of it.
type InspectedStage struct {
	// Document is the user-data.
	Document []byte
	// Size is the length of the user-data with the credentials of the input, as the provider
	// counts it; Limit is that of the provider or of a Secret.
	Size, Limit int
	// Files are those of the profile, in its order.
	Files []InspectedFile
}

// InspectedFile is a file of a profile as it is written to a node.
type InspectedFile struct {
	NodeFile
	// Field of the profile with the content.
	Field string
	// LineOrigins has the origin of each line of the content.
	LineOrigins []LineOrigin
}

// inspectedDigest replaces the input digest, which differs for any two inputs, so that inputs
// that render to the same text compare as equal.
const inspectedDigest = digestRecipe + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Inspect renders an input of the profile, with placeholders and with the real values, like
// Render. The error is that of Render. If only the size of the documents is wrong, Inspect
// returns the inspection together with the error.
func (i *Inspector) Inspect(in Input) (*Inspection, error) {
	if err := in.checkCombination(); err != nil {
		return nil, err
	}
	c := *i.compiled
	if len(c.problems) > 0 {
		return nil, in.invalid(c.problems...)
	}
	redacted, _ := in.ReplaceSecrets()
	c.trace = templates.NewTrace(i.marks)
	osc, shape, problems := redacted.renderPlaceholders(&c, inspectedDigest)
	if len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	bootstrap, provisioning, problems := in.encodeDocuments(&c, osc)
	if len(problems) > 0 {
		return nil, in.invalid(problems...)
	}
	out := &Inspection{}
	for _, s := range []struct {
		to       *InspectedStage
		compiled *compiledStage
		config   *osm.OSCConfig
		document []byte
	}{{&out.Bootstrap, &c.bootstrap, &osc.BootstrapConfig, bootstrap}, {&out.Provisioning, &c.provisioning, &osc.ProvisioningConfig, provisioning}} {
		s.to.Document, s.to.Files = s.document, inspectedFiles(c.trace, s.compiled, s.config)
	}
	return out, in.checkAndMeasureDocuments(i.compiled, out, redacted, osc, shape)
}

// checkAndMeasureDocuments renders with the real values, for the sizes of the documents, and compares the shape
// with that of the placeholders.
func (in Input) checkAndMeasureDocuments(c *compiled, out *Inspection, redacted Input, placeholders *osm.OperatingSystemConfigSpec, shape uint64) error {
	osc, realShape, problems := in.render(c, inspectedDigest)
	if len(problems) > 0 {
		return in.invalid(hideCauses(problems)...)
	}
	if problems := c.compareShapes(redacted, in, inspectedDigest, shape, realShape); len(problems) > 0 {
		return in.invalid(problems...)
	}
	copyManifest(osc, placeholders)
	bootstrap, provisioning, problems := in.encodeDocuments(c, osc)
	if len(problems) > 0 {
		return in.invalid(hideCauses(problems)...)
	}
	out.Bootstrap.Size, out.Bootstrap.Limit = in.Pool.UserDataSize(bootstrap), in.Pool.UserDataLimit()
	out.Provisioning.Size, out.Provisioning.Limit = len(provisioning), maxSecretBytes
	if problems := in.checkSizes(osc, &Output{Bootstrap: bootstrap, Provisioning: provisioning}); len(problems) > 0 {
		return in.invalid(problems...)
	}
	return nil
}

// inspectedFiles returns the files of a stage that come from the profile.
func inspectedFiles(t *templates.Trace, s *compiledStage, config *osm.OSCConfig) []InspectedFile {
	files := make([]InspectedFile, 0, len(s.Files))
	for n, f := range s.Files {
		rendered := config.Files[n] // the settings' own come behind them
		mode, _ := userdata.ParsePermissions(rendered.Permissions)
		files = append(files, InspectedFile{
			NodeFile: NodeFile{Path: rendered.Path, Mode: mode, Content: rendered.Content.Inline.Data},
			Field:    f.Field, LineOrigins: t.LineOrigins(f.Field, f.Text),
		})
	}
	return files
}

// CheckCloudInitDocument returns the violations of cloud-init's schema by a document of a stage, each
// with the field of the profile that it comes from. It is for documents that cloud-init reads:
// those of Ignition are validated when they are written, and Flatcar's coreos-cloudinit has no
// schema. The document contains no credential.
func (p Profile) CheckCloudInitDocument(stage string, s InspectedStage) []*invalid.Error {
	if p.Spec.OSName == osm.OperatingSystemFlatcar {
		return nil
	}
	root := "spec." + stage + "Config"
	if !bytes.HasPrefix(s.Document, []byte(userdata.Header)) {
		return p.locateProblems("", invalid.SetStage(stage, invalid.At(root, "the document does not begin with %q", userdata.Header)))
	}
	var values map[string]any
	if err := yaml.Unmarshal(s.Document, &values); err != nil {
		return p.locateProblems("", invalid.SetStage(stage, invalid.At(root, "the document is not valid YAML: %w", err)))
	}
	var mismatch *jsonschema.ValidationError
	if !errors.As(documentSchema().Validate(values), &mismatch) {
		return nil
	}
	findings := schemaFindings(root, mismatch)
	for _, f := range findings {
		s.locateInProfile(root, f)
	}
	return p.locateProblems("", invalid.SetStage(stage, findings...))
}

// locateInProfile converts a field of the document to one of the profile.
func (s InspectedStage) locateInProfile(root string, f *invalid.Error) {
	for _, module := range []string{"bootcmd", "runcmd", "rh_subscription", "yum_repos", "yum_repo_dir"} {
		if rest, ok := strings.CutPrefix(f.Field, root+"."+module); ok && (rest == "" || rest[0] == '[') {
			f.Field = root + ".modules." + module + rest
			return
		}
	}
	for n, file := range s.Files {
		item := root + ".write_files[" + strconv.Itoa(n) + "]"
		if strings.HasPrefix(f.Field, item) {
			f.Field, f.File = file.Field, file.Path
			return
		}
	}
}
