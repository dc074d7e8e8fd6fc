// Package profiles contains the profiles that osm-gitops ships, one file each: a pool that names
// one of them gets it unless a ProfileSource offers a profile of that name.
//
// They are data. README.md describes their effect on a node, and the tests render each of them.
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
