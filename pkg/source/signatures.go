package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// VerificationPolicy specifies what must be signed before a snapshot can be used.
type VerificationPolicy = verification.Policy

// PathPolicy allows changes of the paths that match a glob to some principals.
type PathPolicy = verification.PathPolicy

// Signed is a tag or a commit with its valid signature.
type Signed = verification.Signed

// UnverifiedError is the reason why a snapshot must not be used, with the remedy.
type UnverifiedError = verification.UnverifiedError

// Reasons of an UnverifiedError in addition to those of package signature.
const (
	NotAllowed   = verification.NotAllowed
	RangeUnknown = verification.RangeUnknown
)

// Verify checks the demanded signatures, and returns those of the tag and of the head. An
// *UnverifiedError means that the snapshot must not be used. Any other error means that the
// check could not be completed.
//
// Paths of a VerificationPolicy apply to every change of a path that their glob matches: of its content,
// of its mode, its addition or removal, and a change of an IgnoreFile in any folder that hides
// or reveals it.
//
// The range consists of the first-parent history after Since. If Since is not in it, after a
// force-push or a merge that has Since as another parent than the first, the range starts
// after the newest commit that is in the history of Since, and the signer of Head must be
// allowed to change all paths that differ between Since and Head.
//
// Without Since there is no range, and Paths apply to the history: for each path, the last
// commit of the first-parent history that changed it must be signed by an allowed principal,
// with a key that was valid then. If the key has an expiry date, the history must confirm the
// time of the commit: it must not follow a newer commit. A merge also changes everything that
// it does not take from its other parents.
func (s *Snapshot) Verify(ctx context.Context, d verification.Policy) ([]verification.Signed, error) {
	if s.objects == nil || s.Head == "" || s.Reference == "" && d.Tag {
		return nil, fault.New(fault.ErrInvalid, "there is no commit or tag that could be signed")
	}
	good, err := s.subject().Verify(ctx, d)
	var unverified *verification.UnverifiedError
	if err != nil && !errors.As(err, &unverified) {
		err = s.objects.HandleDamage(err)
	}
	if err != nil {
		return nil, fmt.Errorf("verifying %s of %s: %w", s.Revision, s.Repository, err)
	}
	return good, nil
}

// SignatureOf returns the signature of a commit that was accepted earlier. Its key can have
// expired since. The error is that of Keys.Verify if there is no valid signature, and also an
// *signature.Error if the key has an expiry date and the commit follows a newer one.
func (s *Snapshot) SignatureOf(ctx context.Context, c Commit, keys *signature.Keys) (verification.Signed, error) {
	if s.objects == nil || !objectid.IsValid(string(c)) {
		return verification.Signed{}, fault.New(fault.ErrNotFound, "there is no such commit")
	}
	good, err := s.subject().SignatureOf(ctx, plumbing.NewHash(string(c)), keys)
	if err != nil {
		return verification.Signed{}, s.objects.HandleDamage(err)
	}
	return good, nil
}

// subject returns the data of the snapshot that is verified.
func (s *Snapshot) subject() verification.Subject {
	return verification.Subject{
		Objects:   s.objects.CurrentObjects(),
		Scope:     s.scope,
		Head:      plumbing.NewHash(string(s.Head)),
		Reference: s.Reference,
		TagObject: s.tag,
		Cache:     s.verified,
	}
}
