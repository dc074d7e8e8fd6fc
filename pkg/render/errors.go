package render

import (
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/taint"
)

// InvalidError says that a profile, a pool or a setting is invalid. Rendering again is
// pointless until it has changed.
type InvalidError = invalid.Error

// Problems returns the InvalidErrors in an error of Check or Render, one per thing
// to fix.
func Problems(err error) []*InvalidError { return invalid.Problems(err) }

// CredentialError says that the output of a template depends on the content of a credential.
type CredentialError = taint.Error
