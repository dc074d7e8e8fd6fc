// Package fault says what an error of a pool means for its next run: a Rejection waits until a
// user changes something, a Wait until an object appears, ErrRaced runs again immediately
// because the cache was stale, and a ReadError is retried while the existing objects remain.
// Any other error is retried with a growing wait.
package fault

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Rejection says that a pool cannot have what it requests until a user changes the pool, its
// profile or the controller's flags.
type Rejection struct {
	Reason string // of the event
	Err    error
}

func (e *Rejection) Error() string { return e.Err.Error() }
func (e *Rejection) Unwrap() error { return e.Err }

// Reject returns a Rejection about a profile.
func Reject(format string, args ...any) error {
	return &Rejection{Reason: api.EventProfileError, Err: fmt.Errorf(format, args...)}
}

// Wait says that an object is not there yet; its appearance starts the pool again.
type Wait struct{ Err error }

func (e *Wait) Error() string { return e.Err.Error() }
func (e *Wait) Unwrap() error { return e.Err }

// Await returns a Wait.
func Await(format string, args ...any) error {
	return &Wait{Err: fmt.Errorf(format, args...)}
}

// ReadError says that it is not known what a record refers to. It does not say that this is
// gone.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

// MarkReadError wraps errors of reading that pass without a change by a user in a ReadError. It
// returns other errors unchanged.
func MarkReadError(err error) error {
	if _, final := PermanentReason(err); final || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return err
	}
	return &ReadError{Err: err}
}

// PermanentReason returns the event's reason for an error that only a change can fix, and whether
// it is one.
func PermanentReason(err error) (string, bool) {
	if rejected, ok := errors.AsType[*Rejection](err); ok {
		return rejected.Reason, true
	}
	if _, ok := errors.AsType[*render.InvalidError](err); ok {
		return api.EventProfileError, true
	}
	return "", false
}

// SplitPermanent splits an error about the input of new content: an error that only a change by a
// user can fix is a reason to maintain what exists.
func SplitPermanent(err error) (rejection, other error) {
	if waiting, ok := errors.AsType[*Wait](err); ok {
		return &Rejection{Reason: api.EventWaiting, Err: waiting}, nil
	}
	if _, final := PermanentReason(err); final {
		return err, nil
	}
	return nil, err
}

// ErrRaced says that the cache was stale: the next run reads the current state.
var ErrRaced = errors.New("another write came first")

// MarkRace wraps errors that only say that the cache was behind in ErrRaced. It returns other
// errors unchanged.
func MarkRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrRaced, err)
	}
	return err
}

// ClassifyCreateError is MarkRace for a creation. If something is missing for a creation, it is not the
// object but its namespace or its kind, which a user has to create.
func ClassifyCreateError(err error) error {
	if apierrors.IsNotFound(err) {
		return Await("%w: create what is missing", err)
	}
	return MarkRace(err)
}

// RejectedByServer reports whether the API server rejects the request until a user changes
// something: a quota, a policy, a permission, the object itself.
func RejectedByServer(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}
