package render

import (
	"fmt"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// Node is everything that the documents of both stages put on a node, for display.
type Node struct {
	Bootstrap, Provisioning NodeStage
}

// NodeStage is everything that one document puts on a node.
type NodeStage struct {
	// Files in the order in which they are written. If two have the same path, the later one
	// replaces the first.
	Files []NodeFile
	// Units in the profile's order. Their files are among Files.
	Units []NodeUnit
}

// NodeFile is a file on a node.
type NodeFile struct {
	// Path as the profile has it.
	Path string
	// Mode are the permission bits, and the special bits above them.
	Mode uint32
	// Content is decoded. machine-controller replaces userdata.MachineName in it with the
	// machine's name.
	Content string
}

// NodeUnit is a unit of systemd.
type NodeUnit struct {
	Name            string
	Enabled, Masked bool
}

// RenderNode returns what the documents of an input put on a node, with the real values. The error is
// an *InvalidError.
func (e *Engine) RenderNode(in Input) (*Node, error) {
	if err := in.checkCombination(); err != nil {
		return nil, err
	}
	c := e.getOrCompile(in.Profile)
	if len(c.problems) > 0 {
		return nil, in.invalid(c.problems...)
	}
	osc, _, problems := in.render(c, in.InputDigest())
	if len(problems) > 0 {
		return nil, in.invalid(hideCauses(problems)...)
	}
	if unfilledManifest(&osc.ProvisioningConfig) != nil {
		redacted, _ := in.ReplaceSecrets()
		placeholders, _, problems := redacted.renderPlaceholders(c, in.InputDigest())
		if len(problems) > 0 {
			return nil, in.invalid(problems...)
		}
		copyManifest(osc, placeholders)
	}
	node := &Node{}
	for _, s := range []struct {
		compiled *compiledStage
		config   *osm.OSCConfig
		to       *NodeStage
	}{{&c.bootstrap, &osc.BootstrapConfig, &node.Bootstrap}, {&c.provisioning, &osc.ProvisioningConfig, &node.Provisioning}} {
		files, err := in.nodeFiles(s.compiled, s.config)
		if err != nil {
			return nil, in.invalid(s.compiled.problem("%w", err))
		}
		*s.to = NodeStage{Files: files, Units: nodeUnits(s.config.Units)}
	}
	return node, nil
}

// nodeFiles returns the files of a stage's document. A test compares them with those that
// parsers of the documents find.
func (in Input) nodeFiles(stage *compiledStage, config *osm.OSCConfig) ([]NodeFile, error) {
	var files, name []NodeFile
	for _, f := range config.Files {
		mode, err := userdata.ParsePermissions(f.Permissions)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
		files = append(files, NodeFile{Path: f.Path, Mode: mode, Content: f.Content.Inline.Data})
	}
	units := config.Units
	if in.Pool.OperatingSystem == osm.OperatingSystemFlatcar {
		units = withoutEnable(units)
	}
	for _, f := range userdata.UnitFiles(units) {
		files = append(files, NodeFile{Path: f.Path, Mode: unitFileMode, Content: f.Content})
	}
	if text := in.Pool.machineNameText(stage.Name); text != "" {
		name = append(name, NodeFile{Path: userdata.MachineNameFile, Mode: userdata.MachineNameMode, Content: text})
	}
	if in.Pool.utility() == osm.ProvisioningUtilityIgnition {
		return append(name, files...), nil // a profile's own comes after it there
	}
	return append(files, name...), nil
}

// unitFileMode is the mode of every file of userdata.UnitFiles.
const unitFileMode = 0o644

// withoutEnable omits the files that enable units: Flatcar's documents list units, and Ignition
// and coreos-cloudinit enable them in another way.
func withoutEnable(units []osm.Unit) []osm.Unit {
	out := make([]osm.Unit, len(units))
	for i, u := range units {
		u.Enable = nil
		out[i] = u
	}
	return out
}

func nodeUnits(units []osm.Unit) []NodeUnit {
	var out []NodeUnit
	for _, u := range units {
		out = append(out, NodeUnit{Name: u.Name, Enabled: userdata.IsTrue(u.Enable) && !userdata.IsTrue(u.Mask), Masked: userdata.IsTrue(u.Mask)})
	}
	return out
}
