package source

import "github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"

// What an error means for the caller, for errors.Is.
var (
	// ErrUnreachable: the remote is down, slow, broken or cannot prove who it is. Try again later.
	ErrUnreachable = fault.ErrUnreachable
	// ErrAuthentication: the remote rejected the credentials or wants some.
	ErrAuthentication = fault.ErrAuthentication
	// ErrHostKey: an ssh server is not the one that known_hosts names, or is not in
	// it. Nothing was sent to it. A retry cannot succeed before one of them changes.
	ErrHostKey = fault.ErrHostKey
	// ErrNotFound: the repository, the reference or the path does not exist.
	ErrNotFound = fault.ErrNotFound
	// ErrInvalid: the URL, the path or the repository itself is not acceptable. A retry
	// cannot succeed before one of them changes.
	ErrInvalid = fault.ErrInvalid
	// ErrUnsupported: something Git can do and this package does not.
	ErrUnsupported = fault.ErrUnsupported
)
