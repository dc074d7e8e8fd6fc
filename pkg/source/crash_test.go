package source

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// If the disk is full, the fetch fails with an error that says so, and the mirror remains
// unchanged. The next fetch succeeds when there is space again.
func TestFullDisk(t *testing.T) {
	const here = "FULL_DISK"
	if os.Getenv(here) == "" { // the limit applies to a process, and this one has to write its log
		other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		other.Env = append(os.Environ(), here+"=1")
		if out, err := other.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	before := mustFetch(t, m, remote)
	r.commit("a.yaml", "a: 2\n", "noise.bin", noise(300_000))
	s.push(r, "repo.git")
	for _, room := range []uint64{0, 100, 10_000, 200_000} {
		full := diskOf(t, room)
		_, err := m.Fetch(t.Context(), remote)
		full()
		if err == nil || !strings.Contains(err.Error(), "writing the mirror") || !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("with room for %d bytes: %v", room, err)
		}
		if left, _ := filepath.Glob(filepath.Join(mirrorDir(t, m), "incoming-*")); left != nil {
			t.Errorf("it left %v", left)
		}
		if data, err := before.Read(t.Context(), before.Files[0].Blob); err != nil || string(data) != "a: 1\n" {
			t.Errorf("what was there before: %q, %v", data, err)
		}
	}
	want := mustFetch(t, newMirrors(t), remote)
	requests, _ := s.cost(func() {
		if diff := cmp.Diff(want, mustFetch(t, m, remote), snapshots); diff != "" {
			t.Error(diff)
		}
	})
	if requests != 2 {
		t.Errorf("with room again it took %d requests", requests)
	}
	git(t, mirrorDir(t, m), "fsck", "--full", "--no-dangling")
}

// The same with a full filesystem, on which all files together reach the limit.
func TestFilesystemWithoutRoom(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	mountSmall(t, m.Dir)
	r.commit("a.yaml", "a: 1\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	before := mustFetch(t, m, remote)
	r.commit("a.yaml", "a: 2\n", "noise.bin", noise(300_000))
	want := mustFetch(t, newMirrors(t), Remote{URL: s.push(r, "repo.git")})
	filler := filepath.Join(m.Dir, "filler")
	for room, phase := range map[int64]string{0: "pack", 16 << 10: "pack", 200_000: "pack", 296 << 10: "index"} {
		fill(t, filler, room)
		for range 3 { // a failed fetch leaves no files that take space
			began := time.Now()
			_, err := m.Fetch(t.Context(), remote)
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("with room for %d bytes: %v", room, err)
			}
			if want := "phase " + phase + ": writing the mirror: write: no space left on device; free space in the folder of the mirrors: --cache-dir"; !strings.HasSuffix(err.Error(), want) {
				t.Errorf("with room for %d bytes: %v", room, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			if left, _ := filepath.Glob(filepath.Join(m.Dir, "*", "incoming-*")); left != nil {
				t.Errorf("it left %v", left)
			}
		}
		if data, err := before.Read(t.Context(), before.Files[0].Blob); err != nil || string(data) != "a: 1\n" {
			t.Errorf("what was there before: %q, %v", data, err)
		}
		next := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
		if got := mustFetch(t, next, Remote{URL: remote.URL, Commit: before.Head}); got.Head != before.Head {
			t.Errorf("the next process has %s", got.Head)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	requests, _ := s.cost(func() {
		if diff := cmp.Diff(want, mustFetch(t, m, remote), snapshots); diff != "" {
			t.Error(diff)
		}
	})
	if requests != 2 {
		t.Errorf("with room again it took %d requests", requests)
	}
	git(t, globbed(t, m.Dir, "*/objects")[0]+"/..", "fsck", "--full", "--no-dangling")
}

// mountSmall mounts a 1 MiB filesystem in memory on a folder.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0700"); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skipf("mounting a small filesystem needs CAP_SYS_ADMIN (%v); TestFullDisk has the same errors from a limit on files", err)
	} else if err != nil {
		t.Fatalf("mounting a small filesystem on %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
}

// fill writes a file until its filesystem has only so many bytes left.
func fill(t *testing.T, file string, room int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &disk); err != nil {
		t.Fatal(err)
	}
	if size := int64(disk.Bavail)*disk.Bsize - room; size <= 0 {
		t.Fatalf("there is room for %d bytes only", int64(disk.Bavail)*disk.Bsize)
	} else if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		t.Fatal(err)
	}
}

// diskOf limits the size of every file that this process writes, until undo is called. The
// same system calls fail as on a full disk, without a filesystem of its own.
func diskOf(t *testing.T, bytes uint64) (undo func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	}
}

// A flipped bit anywhere in a mirror never changes what is read, neither by the process that
// has the mirror open nor by the next one.
func TestFlippedBits(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n", "sub/b.yaml", strings.Repeat("b: 1\n", 50))
	r.commit("a.yaml", "a: 2\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	r.commit("sub/b.yaml", strings.Repeat("b: 1\n", 49)+"b: 2\n")
	s.push(r, "repo.git")
	want := mustFetch(t, m, remote)
	dir := mirrorDir(t, m)
	mirror := m.open[filepath.Base(dir)]
	random := rand.New(rand.NewPCG(1, 2))
	read := func(what string, m *Mirrors) {
		t.Helper()
		got, err := m.Fetch(t.Context(), remote)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got, snapshots); diff != "" {
			t.Fatalf("%s: %s", what, diff)
		}
		for _, step := range got.Line {
			for _, c := range step.Changes {
				data, err := got.Read(t.Context(), c.Blob)
				if errors.Is(err, ErrUnreachable) { // the damage was found: the next fetch repairs it
					got = mustFetch(t, m, remote)
					data, err = got.Read(t.Context(), c.Blob)
				}
				if id, bad := objectid.Sum(3, data); err != nil || bad != nil || id.String() != c.Blob {
					t.Fatalf("%s: reading %s: %q, %v", what, c.Blob, data, err)
				}
			}
		}
	}
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		files := append(glob(t, dir, "objects/pack/*"), filepath.Join(dir, "packed-refs"), filepath.Join(dir, "config"), filepath.Join(dir, "HEAD"))
		path := files[random.IntN(len(files))]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at, bit := random.IntN(len(data)), byte(1)<<random.IntN(8)
		data = bytes.Clone(data)
		data[at] ^= bit
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("bit %08b of byte %d of %s", bit, at, filepath.Base(path))
		read(what+", open", m)
		read(what+", opened again", &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback})
		// Start with an undamaged mirror. Only one process at a time uses the folder.
		if err := mirror.store.DeleteFiles(); err != nil {
			t.Fatal(err)
		}
		mustFetch(t, m, remote)
	}
}

// If a process is killed at any moment of a fetch, the next process finds a complete mirror,
// or repairs it.
func TestKilledWhileFetching(t *testing.T) {
	if dir := os.Getenv("KILLED_DIR"); dir != "" { // this is the process to kill
		m := &Mirrors{Dir: dir, AllowInsecure: true, AllowedCIDRs: loopback}
		for {
			_, err := m.Fetch(t.Context(), Remote{URL: os.Getenv("KILLED_URL")})
			fmt.Println("fetched", err)
		}
	}
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n", "noise.bin", noise(200_000))
	remote := Remote{URL: s.push(r, "repo.git")}
	cleared := 0
	for i := range 25 {
		r.commit("a.yaml", strconv.Itoa(i)+"\n", "noise.bin", noise(200_000))
		s.push(r, "repo.git")
		victim := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWhileFetching$")
		victim.Env = append(os.Environ(), "KILLED_DIR="+m.Dir, "KILLED_URL="+remote.URL)
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i/4) * time.Millisecond) // each is killed later than the one before
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.Wait() // returns an error, because the process was killed
		if left, _ := filepath.Glob(filepath.Join(m.Dir, "*", "incoming-*")); left != nil {
			cleared++
		}
		next := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
		got := mustFetch(t, next, remote)
		if len(got.Line) != i+2 || got.Head != r.head() {
			t.Fatalf("after %d kills the line has %d steps", i+1, len(got.Line))
		}
		if left, _ := filepath.Glob(filepath.Join(m.Dir, "*", "incoming-*")); left != nil {
			t.Errorf("a killed fetch left %v", left)
		}
		git(t, mirrorDir(t, m), "fsck", "--full", "--no-dangling")
	}
	t.Logf("%d of the kills cut a fetch off in the middle", cleared)
}
