package downloads

import (
	"fmt"
	"maps"
	"slices"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// positions maps lines on a node to lines of the profile.
type positions struct {
	profile render.Profile
	// files has the place of each line, fields the place of texts that are not templates:
	// units and commands. The keys of both are the stage and the path on the node.
	files  map[[2]string][]render.LineOrigin
	fields map[[2]string]string
}

// newPositions renders an input again, and records the origin of each line.
func newPositions(in render.Input) positions {
	out := positions{profile: in.Profile, files: map[[2]string][]render.LineOrigin{}, fields: map[[2]string]string{}}
	inspected, err := render.NewInspector(in.Profile).Inspect(in)
	for stage, config := range map[string]*osm.OSPConfig{"bootstrap": &in.Profile.Spec.BootstrapConfig, "provisioning": &in.Profile.Spec.ProvisioningConfig} {
		for name, field := range fieldsByPath(config) {
			out.fields[[2]string{stage, name}] = "spec." + stage + "Config" + field
		}
		if err != nil { // the same input was rendered before, so it is valid
			continue
		}
		files := inspected.Bootstrap.Files
		if stage == "provisioning" {
			files = inspected.Provisioning.Files
		}
		for _, f := range files {
			out.files[[2]string{stage, f.Path}] = f.LineOrigins
		}
	}
	return out
}

// fieldsByPath maps the paths on the node to the fields of units and commands.
func fieldsByPath(config *osm.OSPConfig) map[string]string {
	out := map[string]string{}
	for i, u := range config.Units {
		field, file := fmt.Sprintf(".units[%d]", i), "/etc/systemd/system/"+u.Name
		out[file] = field + ".content"
		for j, d := range u.DropIns {
			out[file+".d/"+d.Name] = fmt.Sprintf("%s.dropIns[%d].content", field, j)
		}
	}
	if m := config.CloudInitModules; m != nil {
		for name, commands := range map[string][]string{"runcmd": m.RunCMD, "bootcmd": m.BootCMD} {
			for i := range commands {
				command := fmt.Sprintf("%s[%d]", name, i)
				out[command] = ".modules." + command
			}
		}
		for name := range m.YumRepos {
			repository := "yum_repos[" + name + "]"
			out[repository] = ".modules." + repository
		}
	}
	return out
}

// sourceLookup returns a function that finds the place in the profile of a line of a stage's file;
// the line is 0 if the profile has no lines.
func (p positions) sourceLookup(stage string) func(file string, line int) (path string, at int) {
	return func(file string, line int) (path string, at int) {
		key := [2]string{stage, file}
		if field, ok := p.fields[key]; ok {
			return p.profile.Position(field, line)
		}
		lines := p.files[key]
		switch {
		case len(lines) == 0: // it is from the settings
			return p.profile.Position("spec."+stage+"Config", 1)
		case line < 1 || line > len(lines):
			return p.profile.Position(lines[0].Field, 1)
		}
		return p.profile.Position(lines[line-1].Field, lines[line-1].Line)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
