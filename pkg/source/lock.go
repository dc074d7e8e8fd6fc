package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/mirror"
)

// lockName is the file in Mirrors.Dir that the process which uses the folder locks.
const lockName = "lock"

// Lock locks the folder of the mirrors for this process until release is called or the
// process ends, also by a crash. The error is ErrInvalid if another process has the lock, or
// the folder belongs to another user. The process can be on this machine, or on another that
// mounts the same volume if its filesystem supports locks between machines.
func (m *Mirrors) Lock() (release func(), err error) {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the mirrors: %w", err)
	}
	if err := mirror.CheckOwner(m.Dir); err != nil {
		return nil, fmt.Errorf("locking the folder of the mirrors: %w", err)
	}
	path := filepath.Join(m.Dir, lockName)
	// Another user of the volume could have placed a symlink here, so that this process truncates
	// its target.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fault.New(fault.ErrInvalid, "locking %s: it is a symlink, which was not followed: delete it, and find out who created it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the folder of the mirrors: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, fault.New(fault.ErrInvalid, "locking %s: another process%s uses the mirrors there: stop it, or give each process a folder of its own", path, describeLockHolder(f))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	// The content only names the owner in error messages. The lock does not depend on it.
	host, _ := os.Hostname()
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintf("%d on %s\n", os.Getpid(), host))); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	// The file remains: if it were deleted, another process could lock a file that no longer has
	// a name.
	return func() { f.Close() }, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// describeLockHolder returns the process and machine in the lock file, for messages.
func describeLockHolder(f *os.File) string {
	data := make([]byte, 200)
	n, _ := f.ReadAt(data, 0)
	who := strings.TrimSpace(string(data[:n]))
	if who == "" {
		return ""
	}
	return " (" + fault.EscapeUnprintable(who) + ")"
}
