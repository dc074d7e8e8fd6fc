package importer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// correctModuleValues rewrites values of cloud-init's modules that the reference decodes as YAML once
// more, so that as strings they have the same meaning, in a decoded profile.
func (a *importPlan) correctModuleValues(c *candidate, profile any) {
	spec := manifest.Mapping(manifest.Mapping(profile)["spec"])
	for _, stage := range []string{"bootstrapConfig", "provisioningConfig"} {
		modules, root := manifest.Mapping(manifest.Mapping(spec[stage])["modules"]), "spec."+stage+".modules."
		for _, key := range []string{"bootcmd", "runcmd"} {
			items, _ := modules[key].([]any)
			for i, item := range items {
				field := root + key + "[" + strconv.Itoa(i) + "]"
				switch meant, as, exact := render.CommandUnderOSM(manifest.Text(item)); {
				case exact:
					items[i] = meant
					c.corrected(field, manifest.Text(item), meant)
				case as != "":
					a.addNote(Note{Object: c.object.String(), Field: field, Message: fmt.Sprintf("unchanged, but with another effect: "+
						"operating-system-manager decodes this text as YAML, %s, with a value that is not a string for cloud-init, such as 0755 or yes: write the text for the shell, perhaps %s", as, strconv.Quote(meant))})
				}
			}
		}
		repos := manifest.Mapping(modules["yum_repos"])
		for _, repo := range slices.Sorted(maps.Keys(repos)) {
			values := manifest.Mapping(repos[repo])
			for _, key := range slices.Sorted(maps.Keys(values)) {
				if meant, ok := render.QuotedValueUnderOSM(manifest.Text(values[key])); ok {
					c.corrected(root+"yum_repos["+repo+"]["+key+"]", manifest.Text(values[key]), meant)
					values[key] = meant
				}
			}
		}
	}
}

func (c *candidate) corrected(field, from, to string) {
	c.out.Corrected = append(c.out.Corrected, Correction{Field: field, From: from, To: to})
}
