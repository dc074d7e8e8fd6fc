package equivalence

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
)

// Difference is one difference between two documents.
type Difference struct {
	// What differs, such as `file "/etc/hosts"`, without the content.
	What string
	// Reference and Ours are the two values, parsed if the form is known, and nil if absent.
	// They can contain credentials.
	Reference, Ours any
}

// Compare returns the differences between our document and that of operating-system-manager.
// Both are cloud-configs, or both Ignition configurations, of any version. An error says which
// of the two could not be read; then no difference is known.
func Compare(reference, ours []byte) ([]Difference, error) {
	parse := parseCloudConfig
	if bytes.HasPrefix(reference, []byte("{")) {
		parse = parseIgnition
	}
	r, err := parse(reference)
	if err != nil {
		return nil, fmt.Errorf("reading the reference's document: %w", err)
	}
	o, err := parse(ours)
	if err != nil {
		return nil, fmt.Errorf("reading our document: %w", err)
	}
	var out []Difference
	if d, err := r.compareAndRemoveUnits(o); err != nil {
		return nil, fmt.Errorf("reading the reference's document: %w", err)
	} else if d != nil {
		out = append(out, *d)
	}
	out = append(out, compareMaps("key", r.values, o.values)...)
	out = append(out, compareMaps("unit", r.units, o.units)...)
	if !slices.Equal(r.keys, o.keys) {
		out = append(out, Difference{What: "keys of core", Reference: r.keys, Ours: o.keys})
	}
	return append(out, compareFiles(r.files, o.files)...), nil
}

// document is the state of a machine after booting from a document.
type document struct {
	files map[string]file
	// values are the keys of a cloud-config except write_files.
	values map[string]any
	// units by name, and the SSH keys of core in their order, of an Ignition configuration.
	units map[string]Unit
	keys  []string
}

type file struct {
	mode    uint64
	content string
}

// Unit is a unit of Ignition.
type Unit struct {
	Enabled *bool
	Mask    bool
	Content string
	DropIns map[string]string
}

func compareMaps[V any](kind string, reference, ours map[string]V) []Difference {
	var out []Difference
	for _, name := range sortedKeys(reference, ours) {
		r, inReference := reference[name]
		o, inOurs := ours[name]
		if inReference && inOurs && reflect.DeepEqual(r, o) {
			continue
		}
		d := Difference{What: fmt.Sprintf("%s %q", kind, name)}
		if inReference {
			d.Reference = r
		}
		if inOurs {
			d.Ours = o
		}
		out = append(out, d)
	}
	return out
}

func compareFiles(reference, ours map[string]file) []Difference {
	var out []Difference
	for _, path := range sortedKeys(reference, ours) {
		r, inReference := reference[path]
		o, inOurs := ours[path]
		switch what := fmt.Sprintf("file %q", path); {
		case !inReference:
			out = append(out, Difference{What: what, Ours: o.content})
		case !inOurs:
			out = append(out, Difference{What: what, Reference: r.content})
		default:
			if r.mode != o.mode {
				out = append(out, Difference{What: "the mode of " + what, Reference: fmt.Sprintf("%o", r.mode), Ours: fmt.Sprintf("%o", o.mode)})
			}
			if r, o, same := CompareContents(path, r.content, o.content); !same {
				out = append(out, Difference{What: what, Reference: r, Ours: o})
			}
		}
	}
	return out
}

// sortedKeys returns the keys of both maps, sorted.
func sortedKeys[V any](a, b map[string]V) []string {
	all := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(all)
	return slices.Compact(all)
}

// goDuration matches the format in which operating-system-manager prints the image GC ages,
// which the kubelet cannot parse. Deliberate difference: ours print as durations.
var goDuration = regexp.MustCompile(`&Duration\{Duration:([^,}]*),\}`)

// CompareContents compares two contents of the file at path, parsed if their form is known. A trailing
// line break makes no difference. It returns the compared values.
func CompareContents(path, reference, ours string) (r, o any, same bool) {
	reference = strings.TrimRight(goDuration.ReplaceAllString(reference, "$1"), "\n")
	ours = strings.TrimRight(ours, "\n")
	if reference == ours {
		return reference, ours, true
	}
	if r, o, ok := parseTOMLOrKubeconfigs(path, reference, ours); ok {
		return r, o, reflect.DeepEqual(r, o)
	}
	return reference, ours, false
}

// parseTOMLOrKubeconfigs decodes both contents of a file in TOML, and of a kubeconfig.
func parseTOMLOrKubeconfigs(path, reference, ours string) (r, o map[string]any, ok bool) {
	decode := func(text string) (map[string]any, bool) {
		m := map[string]any{}
		if strings.HasSuffix(path, ".toml") {
			return m, toml.Unmarshal([]byte(text), &m) == nil
		}
		if yaml.Unmarshal([]byte(text), &m) != nil {
			return nil, false
		}
		return m, m["kind"] == "Config"
	}
	if r, ok = decode(reference); !ok {
		return nil, nil, false
	}
	o, ok = decode(ours)
	return r, o, ok
}
