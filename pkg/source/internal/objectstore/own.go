package objectstore

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

// The folder of the mirrors may lie where others may write, such as below /tmp or on a
// volume that every user of a pod has, and the name of a mirror can be computed by
// whoever knows its URL. So nothing below it that was there before is written through:
// a mirror is a folder of this user's that others may not write to, and what is made in
// it has a name that nobody knows before, or is renamed from such a name (security.md 13).

// CheckOwner refuses a folder whose owner is another user: he may replace what is in
// it. root may do that anyway, and owns the volumes of pods.
func CheckOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if uid, ok := owner(info); ok && uid != 0 && uid != os.Geteuid() {
		return fault.New(fault.ErrInvalid, "%s belongs to user %d, who may replace what is in it; name a folder of user %d, who runs this, or of root", dir, uid, os.Geteuid())
	}
	return nil
}

// makeOwn makes a folder, or takes one that is there if it is this user's alone.
// errDamaged: it is something else, which was not touched.
func makeOwn(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	uid, ok := owner(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder", fault.ErrDamaged, filepath.Base(dir))
	case ok && uid != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to user %d", fault.ErrDamaged, filepath.Base(dir), uid)
	case info.Mode().Perm()&0o002 != 0: // a volume's fsGroup may give the group a right; nobody gives it to others
		return fmt.Errorf("%w: everyone may write to %s", fault.ErrDamaged, filepath.Base(dir))
	}
	return nil
}

func owner(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// replaceFile makes a file what it shall be in one rename, unless it is that. What is
// there under its name, be it a link, is not written to.
func replaceFile(path string, data []byte) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
			return nil // a full disk is no reason to fail
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "incoming-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
