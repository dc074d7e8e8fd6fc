package render

import (
	"reflect"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/actions"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// The two stages of a node's life.
const (
	stageBootstrap    = "bootstrap"
	stageProvisioning = "provisioning"
)

// compiled is a profile with its templates parsed. All renderings of the profile share it.
type compiled struct {
	bootstrap, provisioning compiledStage
	problems                []*invalid.Error
	trace                   *templates.Trace // of an Inspector; nil elsewhere
	memory                  *meter.Memory    // of one rendering; nil for all that there is
}

type compiledStage struct {
	templates.Stage
	// ignition translates the stage; it is nil unless the profile is for Ignition.
	ignition *userdata.IgnitionStage
}

// An engine caches the compiled profiles that it used last, except those that need much memory,
// which are rare: osp-ubuntu needs 0.25 MiB. The cache is limited to 64 MiB. Compiling a
// profile takes ten times as long as rendering it (BenchmarkRender).
const (
	maxCompiled      = 64
	maxCompiledBytes = 1 << 20
	// actionMemory is how many bytes one byte of an action needs after compilation.
	actionMemory = 80
)

// getOrCompile returns the profile's compiled templates, from the cache if the profile has a
// digest. Only a few profiles that need much memory are compiled at the same time.
func (e *Engine) getOrCompile(p Profile) (c *compiled) {
	if c, ok := e.cache.Get(p.Digest); ok {
		return c.(*compiled)
	}
	size := actions.Bytes(&p.Spec)
	if size <= meter.SmallAction {
		c = compile(&p.Spec, nil)
	} else {
		meter.RunWithSlot(e.memorySlots.Large, func() { c = compile(&p.Spec, nil) })
	}
	// Two goroutines can both compile; the result is the same.
	if p.Digest != "" && size*actionMemory+actions.TotalBytes(&p.Spec) <= maxCompiledBytes {
		e.cache.Add(p.Digest, c)
	}
	return c
}

// compile parses all templates of a profile. The result lists the errors in problems; their
// text depends on the spec alone. marks is set by an Inspector and nil otherwise.
func compile(spec *osm.OperatingSystemProfileSpec, marks *templates.Marks) *compiled {
	c := &compiled{}
	if n := actions.Bytes(spec); n > actions.MaxBytes {
		c.problems = []*invalid.Error{invalid.At("spec", "the actions of its templates, {{ to }}, have %d bytes together without texts and comments in them: a profile can have %d", n, actions.MaxBytes)}
		return c
	}
	compiler := templates.NewCompiler(reflect.TypeFor[data](), marks)
	var problems []*invalid.Error
	c.bootstrap, problems = compileStage(compiler, stageBootstrap, &spec.BootstrapConfig, spec.OSName)
	c.problems = append(c.problems, problems...)
	c.provisioning, problems = compileStage(compiler, stageProvisioning, &spec.ProvisioningConfig, spec.OSName)
	c.problems = append(c.problems, problems...)
	if spec.OSName == osm.OperatingSystemFlatcar && spec.ProvisioningUtility == osm.ProvisioningUtilityIgnition && len(c.problems) == 0 {
		c.problems = append(c.bootstrap.checkIgnitionBeforeRendering(spec.BootstrapConfig.Units), c.provisioning.checkIgnitionBeforeRendering(spec.ProvisioningConfig.Units)...)
	}
	return c
}

func compileStage(compiler templates.Compiler, name string, config *osm.OSPConfig, system osm.OperatingSystem) (compiledStage, []*invalid.Error) {
	stage, problems := compiler.ParseStage(name, config)
	items := make([]string, len(stage.Files))
	for i, f := range stage.Files {
		items[i] = f.Item
	}
	if system != osm.OperatingSystemFlatcar {
		problems = append(problems, invalid.SetStage(name, userdata.CheckUnitNames("spec."+name+"Config", config.Units)...)...)
	}
	return compiledStage{Stage: stage, ignition: userdata.NewIgnitionStage(name, items)}, problems
}

// checkIgnitionBeforeRendering finds the errors in the files and units of a stage that do not
// depend on the pool. The caller calls it only for profiles with Ignition.
func (s *compiledStage) checkIgnitionBeforeRendering(units []osm.Unit) []*invalid.Error {
	files := make([]osm.File, len(s.Files))
	for i, f := range s.Files {
		files[i] = osm.File{Path: f.Path, Permissions: f.Permissions}
	}
	return s.ignition.Check(files, units, s.Name == stageBootstrap)
}

// problem makes an error about the stage.
func (s *compiledStage) problem(format string, args ...any) *invalid.Error {
	return invalid.SetStage(s.Name, invalid.At("spec."+s.Name+"Config", format, args...))[0]
}
