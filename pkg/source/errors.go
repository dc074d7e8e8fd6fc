package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// What an error means for the caller, for errors.Is.
var (
	// ErrUnreachable: the remote is down, slow, broken or cannot prove who it is. Try again later.
	ErrUnreachable = errors.New("unreachable")
	// ErrAuthentication: the remote refused the credentials or wants some.
	ErrAuthentication = errors.New("authentication failed")
	// ErrHostKey: an ssh server is not the one that known_hosts tells of, or is not in
	// it. Nothing was sent to it. Trying again is pointless before one of them changes.
	ErrHostKey = errors.New("host key not trusted")
	// ErrNotFound: the repository, the reference or the path does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the URL, the path or the repository itself is not acceptable. Trying
	// again is pointless before one of them changes.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported: something Git can do and this package does not.
	ErrUnsupported = errors.New("unsupported")
)

// Two states of an object database, of no interest outside: Fetch answers them by
// fetching the mirror anew.
var (
	errMissing = errors.New("object is missing")
	errDamaged = errors.New("mirror is damaged")
)

// fail makes an error of one of the kinds above, whose text is the message alone.
func fail(kind error, format string, args ...any) error {
	return &failure{kind: kind, message: fmt.Sprintf(format, args...)}
}

type failure struct {
	kind    error
	message string
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.kind }

// isDamage tells an error that a fresh mirror may not have.
func isDamage(err error) bool {
	return errors.Is(err, errMissing) || errors.Is(err, errDamaged)
}

// isMissing tells that an object is not there, as opposed to unreadable.
func isMissing(err error) bool { return errors.Is(err, errMissing) }

// writing words an error of this machine's disk. The file's name is left out: it is
// another each time, and the same cause should read the same. Damage stays what it is.
func writing(phase string, err error) error {
	if isDamage(err) {
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
		hint = "; make room in the folder of the mirrors: --cache-dir"
	}
	return fmt.Errorf("phase %s: writing the mirror: %w%s", phase, err, hint)
}

// The phases of a fetch that are about this machine's disk.
const (
	phasePrepare    = "prepare"
	phaseKnownHosts = "known_hosts"
	phasePack       = "pack" // also what the server sends in it
	phaseIndex      = "index"
	phaseTips       = "tips"
)
