package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// sharedMemory is writable in every Pod, also with a read-only root file system: container
// runtimes mount a tmpfs there, of 64 MiB by default.
const sharedMemory = "/dev/shm"

// lockMirrors returns the mirrors of repositories, whose folder this process has locked. If
// the default folder cannot be created or written, it is in memory. A folder that a flag
// names is used or causes an error.
func (opts *Options) lockMirrors() (*source.Mirrors, func(), error) {
	if opts.CacheDir != "" {
		return opts.lockMirrorsIn(opts.CacheDir)
	}
	dir, err := os.UserCacheDir()
	if err == nil {
		mirrors, release, failed := opts.lockMirrorsIn(filepath.Join(dir, "osm-gitops", "mirrors"))
		if failed == nil || errors.Is(failed, source.ErrInvalid) { // another process or user has it
			return mirrors, release, failed
		}
		err = failed
	}
	// The name is fixed, so that a container that is started again has the mirrors of the
	// previous one, and does not leave them in memory.
	dir = filepath.Join(sharedMemory, fmt.Sprintf("osm-gitops-%d", os.Geteuid()))
	if failed := createPrivate(dir); failed != nil {
		return nil, nil, fmt.Errorf("the default folder cannot be used: %w; nor can one in memory: %w: name a folder", err, failed)
	}
	mirrors, release, failed := opts.lockMirrorsIn(dir)
	if failed == nil {
		ctrl.Log.Info("repositories are stored in memory: name a folder with --cache-dir if they are large", "folder", dir, "reason", err.Error())
	}
	return mirrors, release, failed
}

func (opts *Options) lockMirrorsIn(dir string) (*source.Mirrors, func(), error) {
	mirrors := &source.Mirrors{Dir: dir, AllowedCIDRs: opts.GitAllowedCIDRs, AllowInsecure: opts.AllowInsecureGit}
	release, err := mirrors.Lock()
	return mirrors, release, err
}

// createPrivate creates a folder that only this user can read, or accepts an existing one:
// every user can write to the folder that contains it.
func createPrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s exists, and is not a private folder of user %d: delete it, and find out who created it", dir, os.Geteuid())
	}
	return nil
}
