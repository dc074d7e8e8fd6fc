package pools

import (
	"fmt"
	"reflect"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxChanges bounds the part of an event that names what differs, in bytes.
const maxChanges = 600

// changes names what differs between two configurations, by stage: files by path,
// units by name, what else a stage has by field. "+" is new, "-" is gone.
func changes(before, after osm.OperatingSystemConfigSpec) string {
	var names []string
	for _, stage := range []struct {
		name          string
		before, after osm.OSCConfig
	}{
		{stageBootstrap, before.BootstrapConfig, after.BootstrapConfig},
		{stageProvision, before.ProvisioningConfig, after.ProvisioningConfig},
	} {
		for _, name := range changedParts(stage.before, stage.after) {
			names = append(names, stage.name+" "+name)
		}
	}
	if len(names) == 0 {
		return "the files and units are the same"
	}
	out := "changed: "
	for i, name := range names {
		if i > 0 {
			out += ", "
		}
		if len(out)+len(name) > maxChanges {
			return out + fmt.Sprintf("and %d more", len(names)-i)
		}
		out += name
	}
	return out
}

// changedParts names what differs between two stages, in their order, what is gone last.
func changedParts(before, after osm.OSCConfig) []string {
	type part struct {
		name  string
		value any
	}
	parts := func(c osm.OSCConfig) (out []part) {
		for _, f := range c.Files {
			out = append(out, part{f.Path, f})
		}
		for _, u := range c.Units {
			out = append(out, part{"unit " + u.Name, u})
		}
		if len(c.UserSSHKeys) > 0 {
			out = append(out, part{"SSH keys", c.UserSSHKeys})
		}
		if m := c.CloudInitModules; m != nil {
			v := reflect.ValueOf(*m)
			for i := range v.NumField() {
				if !v.Field(i).IsZero() {
					name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
					out = append(out, part{"module " + name, v.Field(i).Interface()})
				}
			}
		}
		return out
	}
	// Of a path that is listed twice the last counts.
	was, is := map[string]any{}, map[string]any{}
	old, now := parts(before), parts(after)
	for _, p := range old {
		was[p.name] = p.value
	}
	for _, p := range now {
		is[p.name] = p.value
	}
	var out []string
	told := map[string]bool{}
	tell := func(mark, name string) {
		if !told[name] {
			told[name] = true
			out = append(out, mark+redact.Clean(name))
		}
	}
	for _, p := range now {
		if value, ok := was[p.name]; !ok {
			tell("+", p.name)
		} else if !reflect.DeepEqual(value, is[p.name]) {
			tell("", p.name)
		}
	}
	for _, p := range old {
		if _, ok := is[p.name]; !ok {
			tell("-", p.name)
		}
	}
	return out
}
