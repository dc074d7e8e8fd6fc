package source

import "github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"

// Kinds of errors, for errors.Is.
var (
	// ErrUnreachable: the remote is down, slow, broken or has no valid certificate. A retry
	// can succeed.
	ErrUnreachable = fault.ErrUnreachable
	// ErrAuthentication: the remote rejected the credentials or requires some.
	ErrAuthentication = fault.ErrAuthentication
	// ErrHostKey: the host key of an ssh server differs from that in known_hosts, or is not
	// in it. Nothing was sent to the server. A retry cannot succeed before one of them changes.
	ErrHostKey = fault.ErrHostKey
	// ErrNotFound: the repository, the reference or the path does not exist.
	ErrNotFound = fault.ErrNotFound
	// ErrInvalid: the URL, the path or the repository itself is invalid. A retry cannot
	// succeed before one of them changes.
	ErrInvalid = fault.ErrInvalid
	// ErrUnsupported: the repository uses a feature of Git that this package does not support.
	ErrUnsupported = fault.ErrUnsupported
)
