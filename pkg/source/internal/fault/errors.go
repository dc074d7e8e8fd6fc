package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// The classes of errors, for errors.Is. Package source documents their meaning for
// callers.
var (
	ErrUnreachable    = errors.New("unreachable")
	ErrAuthentication = errors.New("authentication failed")
	ErrHostKey        = errors.New("host key not trusted")
	ErrNotFound       = errors.New("not found")
	ErrInvalid        = errors.New("invalid")
	ErrUnsupported    = errors.New("unsupported")
)

// Two states of an object database that callers of package source never see: Fetch
// handles them by fetching the mirror again.
var (
	ErrMissing = errors.New("object is missing")
	ErrDamaged = errors.New("mirror is damaged")
)

// New returns an error of one of the classes above, or of a cause such as ENOSPC, whose
// text is only the message.
func New(kind error, format string, args ...any) error {
	return &Error{kind: kind, message: fmt.Sprintf(format, args...)}
}

// Error is an error of a class.
type Error struct {
	kind    error
	message string
}

func (f *Error) Error() string { return f.message }
func (f *Error) Unwrap() error { return f.kind }

// IsDamage reports whether a new mirror can fix the error.
func IsDamage(err error) bool {
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrDamaged)
}

// IsMissing reports whether an object does not exist, as opposed to being unreadable.
func IsMissing(err error) bool { return errors.Is(err, ErrMissing) }

// WrapWriteError returns an error of this machine's disk. It omits the file name, which differs each
// time, because equal causes must have equal texts. Damage remains damage.
func WrapWriteError(phase string, err error) error {
	if IsDamage(err) {
		return err
	}
	var file *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &file):
		err = fmt.Errorf("%s: %w", file.Op, file.Err)
	case errors.As(err, &link):
		err = fmt.Errorf("%s: %w", link.Op, link.Err)
	}
	hint := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		hint = "; free space in the folder of the mirrors: --cache-dir"
	}
	return fmt.Errorf("phase %s: writing the mirror: %w%s", phase, err, hint)
}

// The phases of a fetch that use this machine's disk.
const (
	PhasePrepare    = "prepare"
	PhaseKnownHosts = "known_hosts"
	PhasePack       = "pack" // also used for the content that the server sends
	PhaseIndex      = "index"
	PhaseTips       = "tips"
)

// RecoverAsDamage converts a panic to damage; it must be deferred. Parsers of hostile packs and
// indexes have panicked before (CVE-2026-33762), and one source must not stop the others.
func RecoverAsDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: the parser panicked: %v", ErrDamaged, p)
	}
}
