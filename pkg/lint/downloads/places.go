package downloads

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// places finds the line of a profile that a line on a node comes from.
type places struct {
	profile render.Profile
	stages  map[string][]text
}

// text is one of a stage's texts as the profile has it.
type text struct {
	field, path string
	lines       []string
}

func newPlaces(p render.Profile) places {
	out := places{profile: p, stages: map[string][]text{}}
	for name, config := range map[string]*osm.OSPConfig{"bootstrap": &p.Spec.BootstrapConfig, "provisioning": &p.Spec.ProvisioningConfig} {
		root := "spec." + name + "Config"
		add := func(field string, files []osm.File, templates map[string]string) {
			for i, f := range files {
				if f.Content.Inline != nil {
					out.add(name, text{field + ".files[" + strconv.Itoa(i) + "].content.inline.data", f.Path, strings.Split(f.Content.Inline.Data, "\n")})
				}
			}
			for _, t := range sortedKeys(templates) {
				out.add(name, text{field + ".templates[" + t + "]", "", strings.Split(templates[t], "\n")})
			}
		}
		add(root, config.Files, config.Templates)
		for i, r := range config.SupportedContainerRuntimes {
			add(root+".supportedContainerRuntimes["+strconv.Itoa(i)+"]", r.Files, r.Templates)
		}
		for i, u := range config.Units {
			field, file := root+".units["+strconv.Itoa(i)+"]", "/etc/systemd/system/"+u.Name
			if u.Content != nil {
				out.add(name, text{field + ".content", file, strings.Split(*u.Content, "\n")})
			}
			for j, d := range u.DropIns {
				out.add(name, text{field + ".dropIns[" + strconv.Itoa(j) + "].content", file + ".d/" + d.Name, strings.Split(d.Content, "\n")})
			}
		}
		if m := config.CloudInitModules; m != nil {
			for i := range m.RunCMD {
				out.add(name, text{root + ".modules.runcmd[" + strconv.Itoa(i) + "]", "runcmd[" + strconv.Itoa(i) + "]", nil})
			}
			for i := range m.BootCMD {
				out.add(name, text{root + ".modules.bootcmd[" + strconv.Itoa(i) + "]", "bootcmd[" + strconv.Itoa(i) + "]", nil})
			}
			for _, r := range sortedKeys(m.YumRepos) {
				out.add(name, text{root + ".modules.yum_repos[" + r + "]", "yum_repos[" + r + "]", nil})
			}
		}
	}
	return out
}

func (p places) add(stage string, t text) { p.stages[stage] = append(p.stages[stage], t) }

// source is where the text of a field is, n lines after its first: its file may be that
// of an overlay's base.
func (p places) source(field string, n int) (path string, at int) {
	path = cmp.Or(p.profile.File, p.profile.Provenance.Path)
	if p.profile.FileOf != nil {
		path = cmp.Or(p.profile.FileOf(field), path)
	}
	return path, p.profile.Lines(field) + n
}

// of returns the place in the profile for a line of a file: where the same text stands,
// else where a template stands that has made it, else the beginning of the file's
// text. The line is 0 where the profile has no lines.
func (p places) of(files []render.NodeFile, stage string) func(file string, line int) (path string, at int) {
	content := map[string][]string{}
	for _, f := range files {
		content[f.Path] = strings.Split(f.Content, "\n")
	}
	return func(file string, line int) (path string, at int) {
		if p.profile.Lines == nil {
			return cmp.Or(p.profile.File, p.profile.Provenance.Path), 0
		}
		own := slices.IndexFunc(p.stages[stage], func(t text) bool { return t.path == file })
		if own < 0 {
			return p.source("spec."+stage+"Config", 0)
		}
		begin := p.stages[stage][own].field
		lines := content[file]
		if line < 1 || line > len(lines) {
			return p.source(begin, 0)
		}
		// The file's own text first, then the templates, which any file may insert.
		candidates := []text{p.stages[stage][own]}
		for _, t := range p.stages[stage] {
			if t.path == "" {
				candidates = append(candidates, t)
			}
		}
		for _, same := range []func(template, rendered string) bool{
			func(template, rendered string) bool { return template == rendered }, madeBy,
		} {
			for _, t := range candidates {
				for i, l := range t.lines {
					if same(strings.TrimSpace(l), strings.TrimSpace(lines[line-1])) {
						return p.source(t.field, i)
					}
				}
			}
		}
		return p.source(begin, 0)
	}
}

// madeBy reports whether a line may be what a line of a template has become: what
// stands around its actions is there, in that order.
func madeBy(template, rendered string) bool {
	begin, rest, ok := strings.Cut(template, "{{")
	if !ok || !strings.HasPrefix(rendered, begin) {
		return false
	}
	matched := len(begin)
	at := len(begin)
	for ok {
		var fixed string
		_, rest, ok = strings.Cut(rest, "}}")
		fixed, rest, ok = cutAction(rest, ok)
		if strings.Contains(fixed, "://") && matched >= 8 {
			continue // one of several that an if chooses from
		}
		i := strings.Index(rendered[at:], fixed)
		if i < 0 {
			return false
		}
		at += i + len(fixed)
		matched += len(fixed)
	}
	return matched >= 8 // less may be anything
}

func cutAction(rest string, ok bool) (fixed, after string, more bool) {
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "{{")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
