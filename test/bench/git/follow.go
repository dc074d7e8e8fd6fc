package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// cost is what a side needed.
type cost struct {
	Wall, CPU time.Duration
	Peak      int64 // bytes of memory, so far in the life of the process
	Heap      int64 // bytes that are live
	Steps     int   // on the line
	Versions  int   // of all profiles
	Change    string
	Error     string
}

// followerProcess is a process that maintains a mirror, as the controller does.
type followerProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// follow starts a follower process; dir is the folder of the mirror, at the repository.
func follow(ctx context.Context, dir string, at repositoryAccess) (*followerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &followerProcess{cmd: exec.CommandContext(ctx, self, "follow", dir, at.url, at.identity, at.knownHosts)}
	f.cmd.Stderr = os.Stderr
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.out = json.NewDecoder(out)
	return f, f.cmd.Start()
}

// fetch makes the process fetch n times, and read what changed a file if one is named.
func (f *followerProcess) fetch(n int, path string) (cost, error) { return f.order("", n, path) }

// share makes the process fetch for n sources that share one remote: one request within the hour
// serves all of them.
func (f *followerProcess) share(n int) (cost, error) { return f.order("share", n, "") }

func (f *followerProcess) order(how string, n int, path string) (cost, error) {
	if _, err := fmt.Fprintf(f.in, "%s,%d,%s\n", how, n, path); err != nil {
		return cost{}, err
	}
	var c cost
	if err := f.out.Decode(&c); err != nil {
		return cost{}, fmt.Errorf("the process that fetches: %w", err)
	}
	if c.Error != "" {
		return c, errors.New(c.Error)
	}
	return c, nil
}

func (f *followerProcess) end() error {
	f.in.Close()
	return f.cmd.Wait()
}

// repositoryAccess is a repository, and over ssh the files that lead to it.
type repositoryAccess struct{ url, identity, knownHosts string }

func (p repositoryAccess) remote() (source.Remote, error) {
	remote := source.Remote{URL: p.url, Path: "profiles", Key: "speed"}
	if p.identity == "" {
		return remote, nil
	}
	identity, err := os.ReadFile(p.identity)
	if err != nil {
		return remote, err
	}
	hosts, err := os.ReadFile(p.knownHosts)
	if err != nil {
		return remote, err
	}
	remote.Auth, err = source.ParseSSHKey(source.SSHSecret{Identity: identity, KnownHosts: hosts})
	return remote, err
}

// following is that process.
func following(ctx context.Context, dir string, at repositoryAccess, in io.Reader, out io.Writer) error {
	mirrors := &source.Mirrors{Dir: dir, AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	remote, err := at.remote()
	if err != nil {
		return err
	}
	w := &watcher{mirrors: mirrors, index: &catalog.Indexer{}}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		order := strings.SplitN(lines.Text(), ",", 3)
		if len(order) != 3 {
			return fmt.Errorf("order %q is none", lines.Text())
		}
		n, err := strconv.Atoi(order[1])
		if err != nil {
			return err
		}
		one := remote
		if order[0] == "share" {
			one.MaxAge = time.Hour
		}
		if err := json.NewEncoder(out).Encode(w.fetchAndIndex(ctx, one, n, order[2])); err != nil {
			return err
		}
	}
	return lines.Err()
}

// watcher is the state of the controller between two reconciliations.
type watcher struct {
	mirrors *source.Mirrors
	index   *catalog.Indexer
}

// fetchAndIndex does the work of one reconciliation without the API server: it fetches, and indexes the
// versions in the history.
func (w *watcher) fetchAndIndex(ctx context.Context, remote source.Remote, n int, path string) (c cost) {
	begin, used := time.Now(), cpu(syscall.RUSAGE_SELF)
	var err error
	for range n {
		var snap *source.Snapshot
		if snap, err = w.mirrors.Fetch(ctx, remote); err != nil {
			break
		}
		var cat *catalog.Catalog
		if cat, err = w.index.Catalog(ctx, snap); err != nil {
			break
		}
		c.Steps, c.Versions = len(snap.Line), 0
		for _, versions := range cat.History {
			c.Versions += len(versions)
		}
		if path != "" {
			var change source.Author
			if change, err = snap.LastChange(ctx, snap.Head, path); err != nil {
				break
			}
			c.Change = string(change.Commit)
		}
	}
	c.Wall, c.CPU, c.Peak = time.Since(begin), cpu(syscall.RUSAGE_SELF)-used, peak()
	if err != nil {
		c.Error = err.Error()
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	c.Heap = int64(memory.HeapAlloc)
	return c
}

func cpu(whose int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(whose, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the largest resident set of this process, from /proc: that of getrusage
// begins with what the process had that started it.
func peak() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

// run measures the git command.
func run(ctx context.Context, args ...string) (cost, error) { return timed(gitCommand(ctx, args...)) }

func timed(cmd *exec.Cmd) (cost, error) {
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return cost{Wall: time.Since(begin), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}
