package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// The folder of the mirrors can be writable for other users, such as below /tmp or on a
// volume that all users of a pod share, and anyone who knows its URL can compute the name
// of a mirror. So nothing that existed below it is written through: a mirror is a folder
// of this user that others cannot write to, and new files in it have an unpredictable
// name, or are renamed from such a name (security.md 13).

// CheckOwner rejects a folder of another user: they could replace its content. root can
// always do that, and owns the volumes of pods.
func CheckOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if uid, ok := fileOwnerUID(info); ok && uid != 0 && uid != os.Geteuid() {
		return fault.New(fault.ErrInvalid, "%s belongs to user %d, who can replace its content; name a folder of user %d, the current user, or of root", dir, uid, os.Geteuid())
	}
	return nil
}

// createPrivateDir creates a folder, or uses an existing one if only this user can write to it. It
// returns ErrDamaged for anything else, and does not change it.
func createPrivateDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	uid, ok := fileOwnerUID(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a folder", fault.ErrDamaged, filepath.Base(dir))
	case ok && uid != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to user %d", fault.ErrDamaged, filepath.Base(dir), uid)
	case info.Mode().Perm()&0o002 != 0: // a volume's fsGroup can give the group write access, but never others
		return fmt.Errorf("%w: everyone can write to %s", fault.ErrDamaged, filepath.Base(dir))
	}
	return nil
}

func fileOwnerUID(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// replaceFile sets the content of a file in one rename, unless it has that content. An
// existing file or link of that name is not written to.
func replaceFile(path string, data []byte) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
			return nil // a full disk is not a reason to fail
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "incoming-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// Without Sync, a crash after the rename can leave an empty file.
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
