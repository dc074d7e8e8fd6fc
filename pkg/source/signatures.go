package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// Demand says what has to be signed before a snapshot may be used.
type Demand = verification.Demand

// PathDemand allows changes of the paths that match a glob to some principals.
type PathDemand = verification.PathDemand

// Signed is a tag or a commit with its good signature.
type Signed = verification.Signed

// UnverifiedError says why a snapshot must not be used, and what to do about it.
type UnverifiedError = verification.UnverifiedError

// Reasons of an UnverifiedError beside those of package signature.
const (
	NotAllowed   = verification.NotAllowed
	RangeUnknown = verification.RangeUnknown
)

// Verify checks the signatures that are demanded, and returns those of the tag and
// of the head. An *UnverifiedError means that the snapshot must not be used; any
// other error that it could not be found out.
//
// Paths are held against what changes a path that a glob matches: its content, its
// mode, its being there, and whether an IgnoreFile hides it, wherever that lies.
//
// The range is the first-parent line after Since. Where Since is not on that line, after
// a force-push or a merge that has it as another than the first parent, the range begins
// after the newest commit that is in its history, and whoever signed Head must be allowed
// to change all that differs between Since and Head.
//
// Without Since there is no range, and Paths are held against the history: of each path
// the last commit of the first-parent line that changed it must be signed by who may,
// with a key that was valid then. Of a key that has an end the line has to bear out when
// the commit was made: it may follow none that is newer. A merge changes also what it
// does not take over of its other parents.
func (s *Snapshot) Verify(ctx context.Context, d verification.Demand) ([]verification.Signed, error) {
	if s.objects == nil || s.Head == "" || s.Reference == "" && d.Tag {
		return nil, fault.New(fault.ErrInvalid, "there is no commit or tag that could be signed")
	}
	good, err := s.subject().Verify(ctx, d)
	var unverified *verification.UnverifiedError
	if err != nil && !errors.As(err, &unverified) {
		err = s.objects.Explain(err)
	}
	if err != nil {
		return nil, fmt.Errorf("verifying %s of %s: %w", s.Revision, s.Repository, err)
	}
	return good, nil
}

// SignatureOf says who signed a commit that was accepted long ago, with a key that may
// have ended since. The error is that of Keys.Verify where there is no good signature,
// and an *signature.Error, too, where the key has an end and the commit follows a newer one.
func (s *Snapshot) SignatureOf(ctx context.Context, c Commit, keys *signature.Keys) (verification.Signed, error) {
	if s.objects == nil || !objectstore.IsObjectID(string(c)) {
		return verification.Signed{}, fault.New(fault.ErrNotFound, "there is no such commit")
	}
	good, err := s.subject().SignatureOf(ctx, plumbing.NewHash(string(c)), keys)
	if err != nil {
		return verification.Signed{}, s.objects.Explain(err)
	}
	return good, nil
}

// subject is what is verified of a snapshot.
func (s *Snapshot) subject() verification.Subject {
	return verification.Subject{
		Objects:   s.objects.Reader(),
		Scope:     s.scope,
		Head:      plumbing.NewHash(string(s.Head)),
		Reference: s.Reference,
		TagObject: s.tag,
		Cache:     s.verified,
	}
}
