// Package actions counts the bytes of the actions of a profile's templates, which determine the
// memory that compiling them needs. It parses no template. Start with Bytes.
package actions

import (
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// MaxBytes is the size of all text of a profile between {{ and }}, without texts and
// comments: compiled it needs up to eighty times as much memory (BenchmarkBudget).
const MaxBytes = 128 << 10

// Bytes returns the length of the template actions in the files and templates of a profile.
func Bytes(spec *osm.OperatingSystemProfileSpec) int { return sumOverContents(spec, countActionBytes) }

// TotalBytes returns the length of the files and templates.
func TotalBytes(spec *osm.OperatingSystemProfileSpec) int {
	return sumOverContents(spec, func(text string) int { return len(text) })
}

// sumOverContents returns the sum of a count over each file and template.
func sumOverContents(spec *osm.OperatingSystemProfileSpec, count func(text string) int) int {
	n := 0
	add := func(files []osm.File, templates map[string]string) {
		for _, f := range files {
			if f.Content.Inline != nil {
				n += count(f.Content.Inline.Data)
			}
		}
		for _, text := range templates {
			n += count(text)
		}
	}
	for _, config := range []*osm.OSPConfig{&spec.BootstrapConfig, &spec.ProvisioningConfig} {
		add(config.Files, config.Templates)
		for _, r := range config.SupportedContainerRuntimes {
			add(r.Files, r.Templates)
		}
	}
	return n
}

// countActionBytes counts the bytes of a template's actions. It handles quotes like text/template:
// "..." and '.' with escapes, `...` without. The count of a text that does not parse is
// arbitrary.
func countActionBytes(text string) int {
	n := 0
	for {
		_, rest, found := strings.Cut(text, "{{")
		if !found {
			return n
		}
		text = rest
		if comment := strings.TrimLeft(strings.TrimPrefix(text, "-"), " \t\r\n"); strings.HasPrefix(comment, "/*") {
			if _, text, found = strings.Cut(comment, "*/"); !found {
				return n
			}
			continue
		}
		i := 0
		for i < len(text) && !strings.HasPrefix(text[i:], "}}") {
			if c := text[i]; c == '"' || c == '\'' || c == '`' {
				i = endOfQuote(text, i)
			}
			i++
			n++
		}
		text = text[min(i, len(text)):]
	}
}

// endOfQuote returns the index of the quote that ends the one at i, or of the line's end.
func endOfQuote(text string, i int) int {
	quote := text[i]
	for i++; i < len(text) && text[i] != quote; i++ {
		switch {
		case quote == '`':
		case text[i] == '\n':
			return i
		case text[i] == '\\':
			i++
		}
	}
	return i
}
