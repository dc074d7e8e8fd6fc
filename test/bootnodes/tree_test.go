package bootnodes_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trees are what machines without a fault have, by system. It is found out once.
var trees struct {
	sync.Mutex
	of map[*system]map[string]string
}

// healthy is the tree of a system's machine that had no fault.
func healthy(t *testing.T, s *system) map[string]string {
	t.Helper()
	trees.Lock()
	defer trees.Unlock()
	if tree := trees.of[s]; tree != nil {
		return tree
	}
	r := rehearse(t, s, s.name, "healthy")
	r.on()
	r.finished()
	r.off()
	return r.remember()
}

// remember stores the tree for machines with faults. The caller holds the lock.
func (r *rehearsal) remember() map[string]string {
	r.t.Helper()
	tree := r.tree()
	if len(tree) < 50 {
		r.t.Fatalf("it has %d files", len(tree))
	}
	if trees.of == nil {
		trees.of = map[*system]map[string]string{}
	}
	trees.of[r.system] = tree
	return tree
}

// itsOwn are files that no two machines have alike: numbers, keys and times.
// cloud-init writes the time into the file for sudo, and Ignition into what it says of
// itself; it adds to its preset whenever it runs.
var itsOwn = regexp.MustCompile(`^/etc/(machine-id|\.updated|ssh/ssh_host_.*|kubernetes/pki/kubelet.*|sudoers\.d/90-cloud-init-users|\.ignition-result\.json|systemd/system-preset/20-ignition\.preset)$|/__pycache__(/|$)`)

// tree describes every file that the machine has and its image does not: mode, owner and content,
// or the target of a link. Files that services of the image write below /var are omitted.
func (r *rehearsal) tree() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, top := range []string{"/boot", "/etc", "/opt", "/root", "/usr"} {
		err := filepath.WalkDir(filepath.Join(r.upper, top), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // nothing of it was changed
			}
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, r.upper)
			if itsOwn.MatchString(name) {
				return nil
			}
			// Its pool is in the name of the Secret that it has fetched.
			out[strings.ReplaceAll(name, r.pool+"-"+r.cloud.namespace, "POOL")], err = r.describe(path)
			return err
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return out
}

func (r *rehearsal) describe(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	what := info.Mode().String()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		what += fmt.Sprintf(" %d:%d", stat.Uid, stat.Gid)
	}
	switch {
	case info.Mode().IsRegular():
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		for _, own := range []string{r.name, r.address()} {
			content = bytes.ReplaceAll(content, []byte(own), []byte("ITS OWN"))
		}
		return fmt.Sprintf("%s %x", what, sha256.Sum256(content)), nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return what + " -> " + target, err
	}
	return what, nil
}

// equals holds the machine to one without a fault. Without contents, that of another
// pool or generation, modes and owners are compared; contents are those that were
// rendered, as hasFiles says.
func (r *rehearsal) equals(want map[string]string, contents bool) {
	r.t.Helper()
	got := r.tree()
	if !contents {
		want, got = withoutContents(want), withoutContents(got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("it differs from a machine without the fault (-without +with):\n%s", diff)
	}
}

func withoutContents(tree map[string]string) map[string]string {
	out := map[string]string{}
	for path, what := range tree {
		words := strings.Fields(what)
		out[path] = strings.Join(words[:2], " ")
	}
	return out
}
