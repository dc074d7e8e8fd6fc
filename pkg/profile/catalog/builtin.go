package catalog

import (
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/profiles"
)

// Builtin returns the source of the built-in profiles.
func Builtin() *source.Embedded {
	return &source.Embedded{FS: profiles.FS(), Repository: profiles.Repository, Path: profiles.Path}
}
