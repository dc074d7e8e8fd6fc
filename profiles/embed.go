// Package profiles holds the profiles that osm-gitops ships, one file each: what a
// pool gets that names one of them while nobody else offers it.
//
// They are data. What they do on a node is said in README.md, and every one of
// them is rendered in the tests.
package profiles

import (
	"embed"
	"io/fs"
)

const (
	// Repository is where the profiles are kept, and Path the folder in it.
	Repository = "https://github.com/osm-gitops/osm-gitops"
	Path       = "profiles"
)

// README.md and osp-*.yaml: a pattern that names only the latter would not compile
// in a tree that has none.
//
//go:embed [Ro]*
var files embed.FS

// FS returns the profiles of this binary as files. Whatever is no YAML in it is no
// profile.
func FS() fs.FS { return files }
