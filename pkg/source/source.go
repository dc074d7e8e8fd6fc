package source

import (
	"context"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
)

// Snapshot has the files and the history of a source at one revision. It never changes after
// it was returned. Its slices can be shared with other snapshots.
type Snapshot struct {
	// Revision has the format of Flux RFC-0005: "main@sha1:<40 hex>" for a branch,
	// "v1.2.3@sha1:<40 hex>" for a tag, "refs/pull/420/head@sha1:<40 hex>" for another
	// reference, "sha1:<40 hex>" for a commit, and "sha256:<64 hex>" over the files of
	// a directory that has no Git or is not clean.
	Revision string
	// Reference is the full name of the reference on a server, such as refs/tags/v1.2.3; ""
	// for a commit without a reference and for sources that are not on a server.
	Reference string
	// Repository is the remote's URL, without user-info, or the directory's path.
	Repository string
	// Head is the commit of the files; "" for a directory without Git.
	Head history.Commit
	// Files are the profile files (regular blobs *.yaml and *.yml) below the path,
	// sorted by Path.
	Files []File
	// Rejected are the entries that were not read, sorted by Path.
	Rejected []RejectedEntry
	// Line is the first-parent history of Head, oldest first, with only those steps that
	// change a profile file below the path. It is empty without a history, and for a
	// directory that is a shallow or partial clone.
	Line []history.Entry

	// RequestedAt is when the references were requested from the server, which another fetch
	// can have done; zero for sources that are not on a server.
	RequestedAt time.Time

	objects  database
	verified *verification.Cache
	scope    filter.Scope
	tag      plumbing.Hash // the annotated tag at Reference; zero if there is none
}

// Commit is the id of a commit: a full SHA-1 in lower-case hex, made by ParseCommit or read
// from a repository. "" means none.
type Commit = history.Commit

// ParseCommit accepts exactly 40 hex digits in lower case.
func ParseCommit(s string) (Commit, error) { return history.ParseCommit(s) }

// HistoryEntry is a commit in the first-parent history, compared with its first parent.
type HistoryEntry = history.Entry

// Change is a profile file that was added, changed or removed. A rename is a removal
// and an addition.
type Change = history.Change

// Author is the author of a commit.
type Author = history.Author

// HistoryCache caches histories in memory, so that only new commits are walked.
type HistoryCache = history.Cache

// File is one profile file.
type File = filter.File

// RejectedEntry is an entry that was not read.
type RejectedEntry = filter.RejectedEntry

// MoreRejected is the path of the last RejectedEntry in a truncated list. No entry of a repository
// has this name.
const MoreRejected = filter.MoreRejected

// IgnoreFile is the name of a file with patterns in gitignore syntax, which apply in its
// folder and below.
const IgnoreFile = filter.IgnoreFile

// Read returns the content of a blob that the Line or the Files name. The error is ErrInvalid
// for a blob of more than 1 MiB, and ErrNotFound for one that does not exist.
func (s *Snapshot) Read(ctx context.Context, blob string) ([]byte, error) {
	for _, f := range s.Files {
		if f.Blob == blob {
			return f.Data, nil
		}
	}
	if s.objects == nil || !objectid.IsValid(blob) {
		return nil, fmt.Errorf("reading blob %q of %s: %w", fault.Shorten(blob), s.Repository, fault.New(fault.ErrNotFound, "the source has no such blob"))
	}
	data, err := s.objects.CurrentObjects().Blob(ctx, plumbing.NewHash(blob))
	if fault.IsMissing(err) { // not damage: the caller can pass any id
		err = fault.New(fault.ErrNotFound, "the source has no such blob")
	}
	if err != nil {
		return nil, fmt.Errorf("reading blob %s of %s: %w", blob, s.Repository, s.objects.HandleDamage(err))
	}
	return data, nil
}

// LastChange returns the commit that `git log -1 c -- path` finds, and its author. Like Git, at
// a commit whose path equals that of a parent it follows the first such parent, and it stops
// at a commit that differs from all of its parents. The error is ErrNotFound if there is no
// such commit, or the path was never in its history.
func (s *Snapshot) LastChange(ctx context.Context, c history.Commit, path string) (history.Author, error) {
	author, err := s.findLastChange(ctx, c, path)
	if err != nil {
		return history.Author{}, fmt.Errorf("finding the change of %q at %s of %s: %w", fault.Shorten(path), fault.Shorten(string(c)), s.Repository, err)
	}
	return author, nil
}

// findLastChange is LastChange without the context of its errors.
func (s *Snapshot) findLastChange(ctx context.Context, c history.Commit, path string) (history.Author, error) {
	if s.objects == nil || len(s.Line) == 0 {
		return history.Author{}, fault.New(fault.ErrNotFound, "the source has no history")
	}
	if !objectid.IsValid(string(c)) {
		return history.Author{}, fault.New(fault.ErrInvalid, "this is not a commit")
	}
	parts, err := filter.SplitPath(path)
	if err != nil {
		return history.Author{}, err
	}
	author, err := history.LastChange(ctx, s.objects.CurrentObjects(), plumbing.NewHash(string(c)), parts)
	return author, s.objects.HandleDamage(err)
}

// database has the objects that a snapshot reads on demand.
type database interface {
	// CurrentObjects returns the current objects: a mirror can have been fetched again.
	CurrentObjects() *objectstore.Objects
	// HandleDamage turns damage into an error for the caller, and records it.
	HandleDamage(error) error
}

// Contains reports whether a commit is Head or in its history, including merged branches. It
// is false for a commit that the repository no longer has. FirstParentsContain considers
// only the first-parent history.
func (s *Snapshot) Contains(ctx context.Context, c history.Commit) (bool, error) {
	if c == s.Head {
		return true, nil
	}
	if s.objects == nil || !objectid.IsValid(string(c)) {
		return false, nil
	}
	found, err := history.IsSameOrDescendant(ctx, s.objects.CurrentObjects(), plumbing.NewHash(string(s.Head)), plumbing.NewHash(string(c)))
	if err != nil {
		return false, fmt.Errorf("looking for %s in the history of %s of %s: %w", c, s.Revision, s.Repository, s.objects.HandleDamage(err))
	}
	return found, nil
}

// FirstParentsContain reports whether a commit is Head or in its first-parent history: an update
// from that commit to Head then only adds commits. It is false for a merge that has the commit as
// another parent than the first.
func (s *Snapshot) FirstParentsContain(ctx context.Context, c history.Commit) (bool, error) {
	if c == s.Head {
		return true, nil
	}
	if s.objects == nil || !objectid.IsValid(string(c)) {
		return false, nil
	}
	o, old := s.objects.CurrentObjects(), plumbing.NewHash(string(c))
	if !o.Has(old) {
		return false, nil
	}
	_, found, err := history.FirstParents(ctx, o, plumbing.NewHash(string(s.Head)), func(id plumbing.Hash) bool { return id == old })
	if err != nil {
		return false, fmt.Errorf("looking for %s on the line of %s of %s: %w", c, s.Revision, s.Repository, s.objects.HandleDamage(err))
	}
	return found, nil
}
