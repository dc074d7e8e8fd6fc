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

//go:embed osp-*.yaml
var files embed.FS

// FS returns the profiles of this binary, each a file osp-NAME.yaml.
func FS() fs.FS { return files }
