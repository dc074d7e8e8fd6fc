package profile

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
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

	lines map[string]int
}

// Line is like Document.Line, for a field of the overlay's file, such as
// "spec.bootstrapConfig.files.add[0].content.inline.data".
func (o *Overlay) Line(field string) int { return o.lines[nearestField(o.lines, field)] }

// overlay reads a ProfileOverlay.
func (f *file) overlay(root *yaml.Node, in *Contents) {
	before := len(f.problems)
	var obj api.ProfileOverlay
	d := decoder{file: f, lines: map[string]int{"": root.Line}}
	d.object(root, &obj)
	f.validateOverlay(&d, &obj)
	if len(f.problems) > before {
		return
	}
	o := Overlay{Name: obj.Metadata.Name, Spec: obj.Spec, Path: f.path, lines: d.lines}
	f.checkTwice(key{o.Name, o.Spec.Version}, o.Line("metadata.name"))
	in.Overlays = append(in.Overlays, o)
}

// validateOverlay checks what the types cannot express and what does not need the base.
func (f *file) validateOverlay(d *decoder, obj *api.ProfileOverlay) {
	say := f.sayer(d)
	spec := &obj.Spec
	validateName(say, obj.Metadata.Name, spec.Version)
	if v := spec.From.Version; v != "" {
		if _, err := ParseVersion(v); err != nil {
			say("spec.from.version", "%v: name exactly one version of the base", err)
		}
	}
	if d := spec.From.Digest; d != "" && !wellFormedDigest.MatchString(d) {
		say("spec.from.digest", "is %q: write %q and 64 hex digits, as in the annotation gitops.k8c.io/digest of the base", redact.Excerpt(d, maxFieldBytes), digestRecipe)
	}
	if spec.From.Profile == obj.Metadata.Name && spec.From.Version == spec.Version && spec.Version != "" {
		say("spec.from", "is the overlay itself, %q %s: name another profile, or an earlier version", spec.From.Profile, spec.From.Version)
	}
	if p := spec.SupportedCloudProviders; p != nil {
		once := once{report: say}
		for i, a := range p.Add {
			once.name(at("spec.supportedCloudProviders.add", i)+".name", string(a.Name))
		}
		for i, r := range p.Remove {
			once.name(at("spec.supportedCloudProviders.remove", i), string(r))
		}
	}
	validateStage(say, "spec.bootstrapConfig", spec.BootstrapConfig)
	validateStage(say, "spec.provisioningConfig", spec.ProvisioningConfig)
}

func validateStage(say reportProblem, field string, stage *api.StagePatches) {
	if stage == nil {
		return
	}
	validateFilePatches(say, field+".files", stage.Files)
	validateTemplates(say, field+".templates", stage.Templates)
	validateUnits(say, field+".units", stage.Units)
	validateModules(say, field+".modules", stage.CloudInitModules)
	runtimes := once{report: say}
	for i, rt := range stage.SupportedContainerRuntimes {
		f := at(field+".supportedContainerRuntimes", i)
		runtimes.name(f+".name", string(rt.Name))
		validateFilePatches(say, f+".files", rt.Files)
		validateTemplates(say, f+".templates", rt.Templates)
	}
}

func validateFilePatches(say reportProblem, field string, p *api.FilePatches) {
	if p == nil {
		return
	}
	once := once{report: say}
	validateFiles(say, field+".add", p.Add)
	for i, a := range p.Add {
		once.name(at(field+".add", i)+".path", a.Path)
	}
	for i, r := range p.Replace {
		f := at(field+".replace", i)
		once.name(f+".path", r.Path)
		validatePath(say, f, r.Path)
		validateMode(say, f, r.Permissions)
		switch {
		case r.Content != nil:
			validateContent(say, f, r.Content)
		case r.Permissions == 0:
			say(f, "replaces nothing: set content, permissions, or both")
		}
	}
	for i, r := range p.Remove {
		once.name(at(field+".remove", i), r)
	}
}

func validateUnits(say reportProblem, field string, p *api.UnitPatches) {
	if p == nil {
		return
	}
	once := once{report: say}
	for i, u := range p.Add {
		once.name(at(field+".add", i)+".name", u.Name)
	}
	for i, u := range p.Replace {
		once.name(at(field+".replace", i)+".name", u.Name)
		if u.Enable == nil && u.Mask == nil && u.Content == nil && u.DropIns == nil {
			say(at(field+".replace", i), "replaces nothing: set enable, mask, content or dropIns")
		}
	}
	for i, r := range p.Remove {
		once.name(at(field+".remove", i), r)
	}
}

func validateTemplates(say reportProblem, field string, p *api.TemplatePatches) {
	if p == nil {
		return
	}
	once := once{report: say}
	for _, name := range slices.Sorted(maps.Keys(p.Add)) {
		once.name(field+".add["+name+"]", name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Replace)) {
		once.name(field+".replace["+name+"]", name)
	}
	for i, r := range p.Remove {
		once.name(at(field+".remove", i), r)
	}
}

func validateModules(say reportProblem, field string, p *api.ModulePatches) {
	if p == nil {
		return
	}
	once := once{report: say}
	for _, k := range moduleKeys {
		for _, part := range []struct {
			name string
			m    *osm.CloudInitModule
		}{{".add.", p.Add}, {".append.", appended(p.Append)}, {".replace.", p.Replace}} {
			if part.m != nil && k.has(part.m) {
				once.name(field+part.name+string(k.key), string(k.key))
			}
		}
	}
	for i, r := range p.Remove {
		once.name(at(field+".remove", i), string(r))
	}
}

// appended returns commands as modules.
func appended(c *api.ModuleCommands) *osm.CloudInitModule {
	if c == nil {
		return nil
	}
	return &osm.CloudInitModule{BootCMD: c.BootCMD, RunCMD: c.RunCMD}
}

// once reports names that an overlay uses twice.
type once struct {
	report reportProblem
	seen   map[string]string // name -> field
}

func (o *once) name(field, name string) {
	if first, ok := o.seen[name]; ok {
		o.report(field, "%q is named twice, first in %s: remove one of them", name, first)
		return
	}
	if o.seen == nil {
		o.seen = map[string]string{}
	}
	o.seen[name] = field
}

// at returns the field of a list element.
func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// moduleKey is one module of cloud-init.
type moduleKey struct {
	key     api.ModuleKey
	has     func(*osm.CloudInitModule) bool
	copyKey func(to, from *osm.CloudInitModule)
	more    func(to, from *osm.CloudInitModule) // nil if nothing can be appended
}

// moduleKeys are the modules, in the order of osm.CloudInitModule.
var moduleKeys = []moduleKey{
	{
		"bootcmd", func(m *osm.CloudInitModule) bool { return m.BootCMD != nil },
		func(to, from *osm.CloudInitModule) { to.BootCMD = from.BootCMD },
		func(to, from *osm.CloudInitModule) { to.BootCMD = slices.Concat(to.BootCMD, from.BootCMD) },
	},
	{
		"rh_subscription", func(m *osm.CloudInitModule) bool { return m.RHSubscription != nil },
		func(to, from *osm.CloudInitModule) { to.RHSubscription = from.RHSubscription }, nil,
	},
	{
		"runcmd", func(m *osm.CloudInitModule) bool { return m.RunCMD != nil },
		func(to, from *osm.CloudInitModule) { to.RunCMD = from.RunCMD },
		func(to, from *osm.CloudInitModule) { to.RunCMD = slices.Concat(to.RunCMD, from.RunCMD) },
	},
	{
		"yum_repos", func(m *osm.CloudInitModule) bool { return m.YumRepos != nil },
		func(to, from *osm.CloudInitModule) { to.YumRepos = from.YumRepos }, nil,
	},
	{
		"yum_repo_dir", func(m *osm.CloudInitModule) bool { return m.YumRepoDir != "" },
		func(to, from *osm.CloudInitModule) { to.YumRepoDir = from.YumRepoDir }, nil,
	},
}
