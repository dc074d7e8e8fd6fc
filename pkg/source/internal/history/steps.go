package history

import (
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// Commit is the id of a commit: a full SHA-1 in lower-case hex, made by
// ParseCommit or read from a repository. "" is no commit.
type Commit string

// ParseCommit accepts 40 hex digits in lower case and nothing else.
func ParseCommit(s string) (Commit, error) {
	if !objectstore.IsObjectID(s) {
		return "", fault.New(fault.ErrInvalid, "commit %q is not a full SHA-1 of 40 lower-case hex digits", fault.Shorten(s))
	}
	return Commit(s), nil
}

// Step is a commit on the first-parent line, compared with its first parent.
type Step struct {
	Commit      Commit
	CommittedAt time.Time
	Changes     []Change // sorted by Path
}

// Change is a profile file that came, changed or went. A rename is one that went
// and one that came.
type Change struct {
	Path string
	Blob string // "" when the file is gone
}

// Author is who wrote a commit.
type Author struct {
	Commit Commit
	Name   string
	Email  string
	At     time.Time
}
