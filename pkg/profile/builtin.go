package profile

import (
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/profiles"
)

// Builtin is the source of the profiles of this program.
func Builtin() *source.Embedded {
	return &source.Embedded{FS: profiles.FS(), Repository: profiles.Repository, Path: profiles.Path}
}
