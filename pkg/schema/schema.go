package schema

import (
	"embed"
	"slices"
	"strings"
)

// Schema is the schema of one kind of file.
type Schema struct {
	// Name of the schema on the command line: "osp".
	Name string
	// Title of the described files: "OperatingSystemProfile".
	Title string
	// File is the suggested file name in a repository.
	File string
}

// Repository is the name of the schema for all kinds, which depends on a document's kind.
const Repository = "repository"

// All lists the schemas, the one for every kind last.
func All() []Schema {
	return []Schema{
		{"osp", "OperatingSystemProfile", "osp.schema.json"},
		{"overlay", "ProfileOverlay", "overlay.schema.json"},
		{"config", ".osm-gitops.yaml", "config.schema.json"},
		{Repository, "every file of a repository", "repository.schema.json"},
	}
}

//go:embed *.schema.json
var files embed.FS

// Named returns a schema as JSON with a line break at the end, and false if no schema has
// the name.
func Named(name string) ([]byte, bool) {
	i := slices.IndexFunc(All(), func(s Schema) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	text, err := files.ReadFile(All()[i].File)
	return text, err == nil
}

// Names lists the names of All, for messages.
func Names() string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
