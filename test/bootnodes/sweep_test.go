package bootnodes_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ours begins the names of what is left on a machine for as long as tests run: a
// temporary folder, and a control group for each machine. The number after it is the
// process that they end with.
const ours = "osm-gitops-rehearsal-"

// cgroupTrees are the trees in which systemd tracks processes: the tree of version 2, or both
// trees if version 1 is mounted too.
func cgroupTrees() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		return []string{root}
	}
	return slices.DeleteFunc([]string{root + "/systemd", root + "/unified"}, func(dir string) bool {
		_, err := os.Stat(dir + "/cgroup.procs")
		return err != nil
	})
}

var leftover = regexp.MustCompile("^" + ours + `(\d+)-`)

// sweep removes the remains of this run and of runs whose process has exited.
func sweep() {
	for _, dir := range append(cgroupTrees(), os.TempDir()) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // then there is nothing of ours either
		}
		for _, e := range entries {
			id := leftover.FindStringSubmatch(e.Name())
			if id == nil || alive(id[1]) {
				continue
			}
			path := filepath.Join(dir, e.Name())
			if dir == os.TempDir() {
				err = os.RemoveAll(path)
			} else {
				err = removeCgroup(path)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "rehearsal:", err)
			}
		}
	}
}

// alive reports whether another process than this one has a number.
func alive(id string) bool {
	pid, err := strconv.Atoi(id)
	return err != nil || pid != os.Getpid() && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// removeCgroup removes a group and those below it, which must be empty.
func removeCgroup(path string) error {
	var dirs []string
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, dir := range slices.Backward(dirs) {
		if e := os.Remove(dir); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// TestSweep: sweep removes the remains of an exited process and nothing more.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const gone = 1 << 30 // more than the kernel gives
	names := []string{
		fmt.Sprintf("%s%d-x", ours, gone), fmt.Sprintf("%s%d-x", ours, os.Getppid()), "another", ours + "no-number",
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(os.TempDir(), name, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	for i, name := range names {
		_, err := os.Stat(filepath.Join(os.TempDir(), name))
		if kept := err == nil; kept != (i > 0) {
			t.Errorf("%s: kept %t", strings.TrimPrefix(name, ours), kept)
		}
	}
}
