package auditlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path, clocktesting.NewFakePassiveClock(noon), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (l *Log) must(t *testing.T, facts ...Event) {
	t.Helper()
	if err := l.Append(facts...); err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// kinds returns the kinds of all lines of an intact chain.
func kinds(t *testing.T, paths ...string) []Kind {
	t.Helper()
	var out []Kind
	if _, err := Verify(paths, "", func(e Entry) { out = append(out, e.Kind) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func wantKinds(t *testing.T, got []Kind, want ...Kind) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// After a restart the chain continues, and only its end is read.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	l.must(t, joined(1), joined(2))
	closed(t, l)
	if err := l.Append(joined(3)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
	l = open(t, path)
	l.must(t, joined(3))
	closed(t, l)
	wantKinds(t, kinds(t, path), NodeJoined, NodeJoined, NodeJoined)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	long := append(bytes.Repeat([]byte("what was here before nobody reads\n"), 5*tailBlock/30), chain(t, 3)...)
	path = write(t, long)[0]
	l = open(t, path)
	l.must(t, joined(9))
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text[len(long):]), `"sequence":4,`) {
		t.Errorf("%v: %s", err, text[len(long):])
	}
}

// The end of a log is found after a line of maximum length, and before a truncated line of
// the same length.
func TestRestartAfterTheLongestLine(t *testing.T) {
	line, _, err := Head{}.EncodeNext(joined(1), noon)
	if err != nil {
		t.Fatal(err)
	}
	longest := joined(1)
	longest.Message = strings.Repeat("x", maxLine-len(line)-len(`,"message":""`))
	if line, _, err = (Head{}).EncodeNext(longest, noon); err != nil || len(line) < maxLine-64 {
		t.Fatalf("a line of %d bytes: %v", len(line), err)
	}
	for name, torn := range map[string]string{"whole": "", "cut off behind it": strings.Repeat("x", maxLine-1)} {
		path := write(t, append(bytes.Clone(line), torn...))[0]
		l := open(t, path)
		l.must(t, joined(2))
		closed(t, l)
		if got := kinds(t, path); len(got) < 2 || got[len(got)-1] != NodeJoined {
			t.Errorf("%s: the chain goes on with %v", name, got)
		}
	}
}

// A line that a crash truncated at any place is stored separately and reported, and the
// chain continues.
func TestTornLine(t *testing.T) {
	whole := chain(t, 3)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	torn := map[string][]byte{"zeros of a block that was never written": append(bytes.Clone(whole[:last]), make([]byte, 100)...)}
	for _, cut := range []int{1, 2, 10, (len(whole) - last) / 2, len(whole) - last - 1} {
		torn[fmt.Sprintf("%d bytes", cut)] = whole[:last+cut]
	}
	for name, text := range torn {
		t.Run(name, func(t *testing.T) {
			path := write(t, text)[0]
			if _, err := Verify([]string{path}, "", nil); err == nil {
				t.Error("it verifies before it is repaired")
			}
			if err := CheckWritable(path); err != nil {
				t.Error(err)
			}
			l := open(t, path)
			l.must(t, joined(3))
			closed(t, l)
			wantKinds(t, kinds(t, path), NodeJoined, NodeJoined, LogRepaired, NodeJoined)
			beside, err := filepath.Glob(path + tornSuffix + "*")
			if err != nil || len(beside) != 1 {
				t.Fatalf("beside it: %v, %v", beside, err)
			}
			kept, err := os.ReadFile(beside[0])
			if err != nil || !bytes.Equal(kept, text[last:]) {
				t.Errorf("kept %q (%v), want %q", kept, err, text[last:])
			}
		})
	}
	// the first line of the file
	path := write(t, whole[:20])[0]
	l := open(t, path)
	l.must(t, joined(1))
	wantKinds(t, kinds(t, path), LogRepaired, NodeJoined)
}

// A file with other content is unchanged.
func TestForeignFiles(t *testing.T) {
	for name, text := range map[string]string{
		"other text": "root:x:0:0\n", "no line end": "hello", "a huge line": strings.Repeat("x", 3*maxLine), "another release": `{"recipe":"v2"}` + "\n",
		"an edited end": strings.Replace(string(chain(t, 2)), `"sequence":2`, `"sequence": 2`, 1),
	} {
		path := write(t, []byte(text))[0]
		for what, err := range map[string]error{"Check": CheckWritable(path), "Open": func() error { _, err := Open(path, clock.RealClock{}, logr.Discard()); return err }()} {
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s: it was changed (%v)", name, err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckWritable(pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := CheckWritable(t.TempDir()); err == nil {
		t.Error("a folder is taken")
	}
}

// Two writers would write two chains.
func TestSecondWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	if _, err := Open(path, clock.RealClock{}, logr.Discard()); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	// not even after the file was moved away
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, clock.RealClock{}, logr.Discard()); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer of the next file: %v", err)
	}
	closed(t, l)
	open(t, path)
}

// logrotate moves files while the controller runs or is stopped.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	move := func(to string) {
		t.Helper()
		if err := os.Rename(path, path+to); err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, path)
	l.must(t, joined(1))
	move(".1")
	l.must(t, joined(2))

	move("-20261121")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // logrotate's "create"
		t.Fatal(err)
	}
	for range 2 { // the second time has no effect
		if err := l.ContinueAfterRotation(); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || bytes.Count(text, []byte("\n")) != 1 {
		t.Errorf("the new file does not begin with the line that continues the chain: %q, %v", text, err)
	}
	l.must(t, joined(3))
	closed(t, l)

	move(".3")
	l = open(t, path) // stopped between the two
	l.must(t, joined(4))
	closed(t, l)
	var first string
	if _, err := Verify([]string{path}, "", func(e Entry) {
		if first == "" {
			first = e.Before
		}
	}); err != nil {
		t.Fatal(err)
	}
	all := []string{path, path + ".3", path + ".1", path + "-20261121"} // any order
	wantKinds(t, kinds(t, all...), NodeJoined, LogContinued, NodeJoined, LogContinued, NodeJoined, LogContinued, NodeJoined)
	if first == "" || kinds(t, path)[0] != LogContinued {
		t.Errorf("the newest file does not say what it continues: %q", first)
	}

	// A compressed file is read as well, and a missing one is detected.
	text, err := os.ReadFile(path + ".3")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".3", packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(kinds(t, all...)); n != 7 {
		t.Errorf("%d lines with a compressed file", n)
	}
	if _, err := Verify([]string{path, path + ".1", path + "-20261121"}, "", nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without one file: %v", err)
	}
}

// copytruncate of logrotate preserves the chain if nothing is written between its two
// steps.
func TestCopyTruncate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	l.must(t, joined(1))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path+".1", text, 0o600), os.Truncate(path, 0)); err != nil {
		t.Fatal(err)
	}
	l.must(t, joined(2))
	wantKinds(t, kinds(t, path+".1", path), NodeJoined, LogContinued, NodeJoined)
}

// Lines that are removed while the controller runs are detected.
func TestShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	l.must(t, joined(1))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	l.must(t, joined(2))
	if err := os.Truncate(path, before.Size()); err != nil {
		t.Fatal(err)
	}
	l.must(t, joined(3))
	if _, err := Verify([]string{path}, "", nil); err == nil || !strings.Contains(err.Error(), "1 lines between are missing") {
		t.Errorf("got %v", err)
	}
}

// The controller's own log reports changes of the file by others, and nothing that is expected.
// Files that were moved away do not stay open: their space would never be free.
func TestChangesByOthersAreLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	var messages []string
	l, err := Open(path, clocktesting.NewFakePassiveClock(noon), funcr.New(func(_, args string) {
		messages = append(messages, args)
	}, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	wantMessages := func(step string, parts ...string) {
		t.Helper()
		if len(messages) != len(parts) {
			t.Errorf("%s: logged %q, want %d messages", step, messages, len(parts))
		} else {
			for i, part := range parts {
				if !strings.Contains(messages[i], part) {
					t.Errorf("%s: logged %q, want %q", step, messages[i], part)
				}
			}
		}
		messages = nil
	}
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}

	l.must(t, joined(1))
	l.must(t, joined(2))
	wantMessages("two writes of its own")

	for i := range 3 {
		if err := os.Rename(path, fmt.Sprintf("%s.%d", path, i)); err != nil {
			t.Fatal(err)
		}
		l.must(t, joined(3+i))
	}
	wantMessages("three rotations")
	if open := openFilesBelow(t, filepath.Dir(path)); !slices.Equal(open, []string{path}) {
		t.Errorf("open after three rotations: %q", open)
	}

	whole := size()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"recipe":`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	l.must(t, joined(6))
	wantMessages("half a line of somebody else",
		fmt.Sprintf(`"another process changed the audit log" "file"=%q "bytes"=%d "want"=%d`, path, whole+10, whole),
		fmt.Sprintf(`"repaired a truncated line of the audit log" "file"=%q "bytes"=10`, path))
	l.must(t, joined(7))
	wantMessages("a write after that")

	whole = size()
	l.must(t, joined(8))
	longer := size()
	if err := os.Truncate(path, whole); err != nil {
		t.Fatal(err)
	}
	l.must(t, joined(9))
	wantMessages("a line was taken away",
		fmt.Sprintf(`"another process changed the audit log" "file"=%q "bytes"=%d "want"=%d`, path, whole, longer),
		`"the end of the audit log differs from the last written line"`)
}

// openFilesBelow returns the files of a folder that this process has open, without the lock.
func openFilesBelow(t *testing.T, folder string) []string {
	t.Helper()
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, descriptor := range descriptors {
		name, err := os.Readlink(descriptor)
		if err == nil && filepath.Dir(name) == folder && !strings.HasSuffix(name, ".lock") {
			open = append(open, name)
		}
	}
	return open
}

// A write that fails halfway leaves no partial line, and a repeated event is written once.
func TestDiskFull(t *testing.T) {
	if os.Getenv("OSM_DISK_FULL") == "" {
		// The limit applies to the whole process: it must not affect go test's own log.
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
		cmd.Env = append(os.Environ(), "OSM_DISK_FULL=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestDiskFull")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	l.must(t, joined(1))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	limited(t, before.Size()+100, func() {
		for range 2 {
			if err := l.Append(joined(2), joined(3)); !errors.Is(err, syscall.EFBIG) {
				t.Errorf("got %v", err)
			}
		}
	})
	if now, err := os.Stat(path); err != nil || now.Size() != before.Size() {
		t.Errorf("it has %d bytes (%v), want %d", now.Size(), err, before.Size())
	}
	l.must(t, joined(2), joined(3))
	wantKinds(t, kinds(t, path), NodeJoined, NodeJoined, NodeJoined)
}

// limited makes writes beyond a file size fail, as on a full disk.
func limited(t *testing.T, size int64, do func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// Concurrent writers produce one chain with every event once.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	const writers, each = 8, 25
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := l.Append(joined(w*each + i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	sum, err := Verify([]string{path}, "", func(e Entry) { seen[e.ID]++ })
	if err != nil || sum.Lines != writers*each || len(seen) != writers*each {
		t.Errorf("%+v, %v, %d facts", sum, err, len(seen))
	}
	huge := joined(1)
	huge.Message = strings.Repeat("x", maxLine)
	if err := l.Append(huge); err == nil {
		t.Error("a line beyond every bound is written")
	}
	l.must(t, joined(999))
}

// A process that is killed at any moment loses nothing that Append has acknowledged.
func TestKilled(t *testing.T) {
	if path := os.Getenv("JOURNAL_TO_WRITE"); path != "" {
		l, err := Open(path, clock.RealClock{}, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			f := joined(os.Getpid()*1_000_000 + i)
			if err := l.Append(f); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(os.Stdout, "written", f.ID())
		}
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	promised := map[string]bool{}
	for run := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "JOURNAL_TO_WRITE="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines, n := bufio.NewScanner(out), 0; lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "written "); ok {
				promised[id] = true
				if n++; n == 10+7*run {
					_ = cmd.Process.Kill()
				}
			}
		}
		_ = cmd.Wait() // it was killed
	}
	found := map[string]bool{}
	l := open(t, path) // repairs the end, if necessary
	l.must(t, joined(0))
	if _, err := Verify([]string{path}, "", func(e Entry) { found[e.ID] = true }); err != nil {
		t.Fatal(err)
	}
	if len(promised) < 60 {
		t.Fatalf("only %d lines were written", len(promised))
	}
	for id := range promised {
		if !found[id] {
			t.Errorf("%s is lost", id)
		}
	}
}

// On standard output each run has its own chain.
func TestStream(t *testing.T) {
	var runs [2]bytes.Buffer
	for i := range runs {
		s := &Stream{Out: &runs[i], Clock: clocktesting.NewFakePassiveClock(noon.Add(time.Hour))}
		for n := range 3 {
			if err := s.Append(joined(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	paths := write(t, runs[0].Bytes(), runs[1].Bytes())
	wantKinds(t, kinds(t, paths[0]), NodeJoined, NodeJoined, NodeJoined)
	if _, err := Verify(write(t, slices.Concat(runs[0].Bytes(), runs[1].Bytes())), "", nil); err == nil || !strings.Contains(err.Error(), "another chain begins") {
		t.Errorf("two runs in a file: %v", err)
	}
}

// Truncation of the file while the controller runs is detected, whether this process has
// written to it before or has only opened it.
func TestEmptied(t *testing.T) {
	for name, before := range map[string]int{"only opened": 0, "written to": 1} {
		t.Run(name, func(t *testing.T) {
			path := write(t, chain(t, 2))[0]
			l := open(t, path)
			for i := range before {
				l.must(t, joined(5+i))
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			l.must(t, joined(9))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(text), "\n")
			if want := fmt.Sprintf(`"sequence":%d,`, 3+before); !strings.Contains(lines[0], want) || !strings.Contains(lines[0], string(LogContinued)) {
				t.Errorf("the first line is %s, want %s of kind %s", lines[0], want, LogContinued)
			}
		})
	}
}
