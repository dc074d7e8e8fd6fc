package history

import (
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// Commit is the id of a commit: a full SHA-1 in lower-case hex, returned by ParseCommit
// or read from a repository. "" means no commit.
type Commit string

// ParseCommit accepts exactly 40 hex digits in lower case.
func ParseCommit(s string) (Commit, error) {
	if !objectid.IsValid(s) {
		return "", fault.New(fault.ErrInvalid, "commit %q is not a full SHA-1 of 40 lower-case hex digits", fault.Shorten(s))
	}
	return Commit(s), nil
}

// Entry is a commit of a first-parent history, compared with its first parent.
type Entry struct {
	Commit      Commit
	CommittedAt time.Time
	Changes     []Change // sorted by Path
}

// Change is a profile file that was added, changed or removed. A rename is a removal and
// an addition.
type Change struct {
	Path string
	Blob string // "" if the file was removed
}

// Author is the author of a commit, and its subject.
type Author struct {
	Commit Commit
	Name   string
	Email  string
	At     time.Time
	// Subject is the first paragraph of the message on one line, at most maxSubject bytes.
	Subject string
}
