package profile

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/internal/cloudinit"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Overlay is one ProfileOverlay in a file.
type Overlay struct {
	// Name of the resulting profile, metadata.name.
	Name string
	// Spec as in the file.
	Spec api.ProfileOverlaySpec
	// Path of the file.
	Path string

	// Lines are the lines of the fields; see Line.
	Lines strictyaml.Lines
}

// ID returns name and version of the resulting profile.
func (o Overlay) ID() ID { return ID{o.Name, o.Spec.Version} }

// Line is like Document.Line, for a field of the overlay's file, such as
// "spec.bootstrapConfig.files.add[0].content.inline.data".
func (o *Overlay) Line(field string) int { return o.Lines.Line(field) }

// decodeOverlay reads a ProfileOverlay.
func (f *fileDecoder) decodeOverlay(root *yaml.Node, in *Contents) {
	before := f.Len()
	var obj api.ProfileOverlay
	lines := strictyaml.Decode(root, &obj, &f.ProblemList)
	f.validateOverlay(lines, &obj)
	if f.Len() > before {
		return
	}
	o := Overlay{Name: obj.Metadata.Name, Spec: obj.Spec, Path: f.Path, Lines: lines}
	f.checkTwice(o.ID(), o.Line("metadata.name"))
	in.Overlays = append(in.Overlays, o)
}

// validateOverlay checks what the types cannot express and what does not need the base.
func (f *fileDecoder) validateOverlay(lines strictyaml.Lines, obj *api.ProfileOverlay) {
	report := f.newProblemReporter(lines)
	spec := &obj.Spec
	validateName(report, obj.Metadata.Name, spec.Version)
	if v := spec.From.Version; v != "" {
		if _, err := version.Parse(v); err != nil {
			report("spec.from.version", "%v: name exactly one version of the base", err)
		}
	}
	if d := spec.From.Digest; d != "" && !wellFormedDigest.MatchString(d) {
		report("spec.from.digest", "is %q: write %q and 64 hex digits, as in the annotation gitops.k8c.io/digest of the base", redact.ShortenWithCount(d, strictyaml.MaxFieldBytes), digestRecipe)
	}
	if spec.From.Profile == obj.Metadata.Name && spec.From.Version == spec.Version && spec.Version != "" {
		report("spec.from", "is the overlay itself, %q %s: name another profile, or an earlier version", spec.From.Profile, spec.From.Version)
	}
	if p := spec.SupportedCloudProviders; p != nil {
		once := uniqueNames{report: report}
		for i, a := range p.Add {
			once.checkUnique(strictyaml.Element("spec.supportedCloudProviders.add", i)+".name", string(a.Name))
		}
		checkUniqueList(&once, "spec.supportedCloudProviders.remove", p.Remove)
	}
	validateStage(report, "spec.bootstrapConfig", spec.BootstrapConfig)
	validateStage(report, "spec.provisioningConfig", spec.ProvisioningConfig)
}

func validateStage(report reportProblem, field string, stage *api.StagePatches) {
	if stage == nil {
		return
	}
	validateFilePatches(report, field+".files", stage.Files)
	validateTemplates(report, field+".templates", stage.Templates)
	validateUnits(report, field+".units", stage.Units)
	validateModules(report, field+".modules", stage.CloudInitModules)
	runtimes := uniqueNames{report: report}
	for i, rt := range stage.SupportedContainerRuntimes {
		f := strictyaml.Element(field+".supportedContainerRuntimes", i)
		runtimes.checkUnique(f+".name", string(rt.Name))
		validateFilePatches(report, f+".files", rt.Files)
		validateTemplates(report, f+".templates", rt.Templates)
	}
}

func validateFilePatches(report reportProblem, field string, p *api.FilePatches) {
	if p == nil {
		return
	}
	once := uniqueNames{report: report}
	validateFiles(report, field+".add", p.Add)
	for i, a := range p.Add {
		once.checkUnique(strictyaml.Element(field+".add", i)+".path", a.Path)
	}
	for i, r := range p.Replace {
		f := strictyaml.Element(field+".replace", i)
		once.checkUnique(f+".path", r.Path)
		requirePath(report, f, r.Path)
		validateMode(report, f, r.Permissions)
		switch {
		case r.Content != nil:
			requireInlineContent(report, f, r.Content)
		case r.Permissions == 0:
			report(f, "replaces nothing: set content, permissions, or both")
		}
	}
	checkUniqueList(&once, field+".remove", p.Remove)
}

func validateUnits(report reportProblem, field string, p *api.UnitPatches) {
	if p == nil {
		return
	}
	once := uniqueNames{report: report}
	for i, u := range p.Add {
		once.checkUnique(strictyaml.Element(field+".add", i)+".name", u.Name)
	}
	for i, u := range p.Replace {
		once.checkUnique(strictyaml.Element(field+".replace", i)+".name", u.Name)
		if u.Enable == nil && u.Mask == nil && u.Content == nil && u.DropIns == nil {
			report(strictyaml.Element(field+".replace", i), "replaces nothing: set enable, mask, content or dropIns")
		}
	}
	checkUniqueList(&once, field+".remove", p.Remove)
}

func validateTemplates(report reportProblem, field string, p *api.TemplatePatches) {
	if p == nil {
		return
	}
	once := uniqueNames{report: report}
	for _, name := range slices.Sorted(maps.Keys(p.Add)) {
		once.checkUnique(field+".add["+name+"]", name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Replace)) {
		once.checkUnique(field+".replace["+name+"]", name)
	}
	checkUniqueList(&once, field+".remove", p.Remove)
}

func validateModules(report reportProblem, field string, p *api.ModulePatches) {
	if p == nil {
		return
	}
	once := uniqueNames{report: report}
	for _, k := range cloudinit.Modules {
		for _, part := range []struct {
			name string
			m    *osm.CloudInitModule
		}{{".add.", p.Add}, {".append.", cloudinit.ModuleFromCommands(p.Append)}, {".replace.", p.Replace}} {
			if part.m != nil && k.Has(part.m) {
				once.checkUnique(field+part.name+string(k.Key), string(k.Key))
			}
		}
	}
	checkUniqueList(&once, field+".remove", p.Remove)
}

// uniqueNames reports names that an overlay uses twice.
type uniqueNames struct {
	report reportProblem
	seen   map[string]string // name -> field
}

// checkUnique reports a name that an earlier field has.
func (o *uniqueNames) checkUnique(field, checkUnique string) {
	if first, ok := o.seen[checkUnique]; ok {
		o.report(field, "%q is named twice, first in %s: remove one of them", checkUnique, first)
		return
	}
	if o.seen == nil {
		o.seen = map[string]string{}
	}
	o.seen[checkUnique] = field
}

// checkUniqueList reports the names in a list that an earlier field has.
func checkUniqueList[S ~string](once *uniqueNames, field string, names []S) {
	for i, name := range names {
		once.checkUnique(strictyaml.Element(field, i), string(name))
	}
}
