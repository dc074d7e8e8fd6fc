package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"
)

// kept is an audit log of a test, with its log and its metrics.
type kept struct {
	*Writer

	log   bytes.Buffer
	count counts
}

func newWriter(path string) *kept {
	k := &kept{count: counts{}}
	k.Writer = &Writer{
		Path: path, Out: &bytes.Buffer{}, Clock: clocktesting.NewFakePassiveClock(time.Unix(1_790_000_000, 0)), Metrics: k.count,
		Log:   funcr.New(func(_, args string) { k.log.WriteString(args + "\n") }, funcr.Options{}),
		Began: Event{Kind: ControllerStarted, Object: Object{Kind: "Controller", Name: "osm-gitops"}, Key: path},
	}
	return k
}

// counts are counters by the name of the metric.
type counts map[string]int

func (c counts) AuditEntryWritten(string)  { c["lines_total"]++ }
func (c counts) AuditWriteFailed()         { c["errors_total"]++ }
func (c counts) AuditEntriesWaiting(n int) { c["waiting"] = n }
func (c counts) AuditEntryLost()           { c["lost_total"]++ }

func rotated(pool string) Event {
	return Event{Kind: ConfigurationRotated, Object: Object{Kind: "MachineDeployment", Namespace: "shop", Name: pool}, Key: "uid"}
}

// pools returns the pools that the lines of a file name, in order.
func pools(t *testing.T, path string) []string {
	t.Helper()
	var out []string
	if _, err := Verify([]string{path}, "", func(e Entry) { out = append(out, e.Object.Name) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// While writing fails, events that occur once wait in memory; events that can be derived
// again are rejected. Both are reported.
func TestDiskAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volume")
	path := filepath.Join(dir, "audit.log")
	j := newWriter(path)
	if err := j.Append(rotated("a")); err == nil {
		t.Fatal("it is written nowhere")
	}
	j.Record(rotated("b"), rotated("c"))
	j.Record(rotated("d"))
	j.writeWaiting()
	if n := j.count["waiting"]; n != 3 {
		t.Errorf("%v facts wait", n)
	}
	if j.count["errors_total"] != 2 || strings.Count(j.log.String(), "cannot be written") != 1 {
		t.Errorf("%v errors, and the log says\n%s", j.count["errors_total"], &j.log)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j.writeWaiting()
	if err := j.Append(rotated("e")); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if got, want := pools(t, path), []string{"osm-gitops", "b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if j.count["waiting"] != 0 || j.count["lost_total"] != 0 || !strings.Contains(j.log.String(), "written again") {
		t.Errorf("%v wait, %v lost; the log says\n%s", j.count["waiting"], j.count["lost_total"], &j.log)
	}
}

// Every lost event is logged.
func TestLost(t *testing.T) {
	j := newWriter(filepath.Join(t.TempDir(), "away", "audit.log"))
	for i := range maxWaiting + 2 {
		j.mu.Lock()
		j.enqueue([]Event{rotated(fmt.Sprint(i))})
		j.mu.Unlock()
	}
	if n := j.count["lost_total"]; n != 2 || !strings.Contains(j.log.String(), fmt.Sprint(maxWaiting+1)) {
		t.Errorf("%v lost", n)
	}
	j.mu.Lock()
	j.waiting = j.waiting[:3]
	j.mu.Unlock()
	j.Close()
	j.Record(rotated("late"))
	id := rotated("late").ID()
	if n := j.count["lost_total"]; n != 6 || !strings.Contains(j.log.String(), id) {
		t.Errorf("%v lost; the log ends with %s", n, j.log.String()[max(0, j.log.Len()-500):])
	}
}

// Facts that a reconciler repeats are written once; a new process does not remember them
// and writes a line with the same id.
func TestAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for range 2 {
		j := newWriter(path)
		for range 3 {
			if err := j.Append(rotated("a")); err != nil {
				t.Fatal(err)
			}
		}
		j.Close()
	}
	ids := map[string]int{}
	if _, err := Verify([]string{path}, "", func(e Entry) { ids[e.ID]++ }); err != nil {
		t.Fatal(err)
	}
	if n := ids[rotated("a").ID()]; n != 2 {
		t.Errorf("it is there %d times", n)
	}
}

// A second controller waits for the file, and continues it when it is released.
func TestTakenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	first, second := newWriter(path), newWriter(path)
	if err := first.Append(rotated("a")); err != nil {
		t.Fatal(err)
	}
	if err := second.Append(rotated("b")); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
	second.Record(rotated("c"))
	first.Close()
	second.writeWaiting()
	second.Close()
	if got, want := pools(t, path), []string{"osm-gitops", "a", "osm-gitops", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// An event that fits no line does not block others.
func TestUnfit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	j := newWriter(path)
	huge := rotated("huge")
	huge.Message = strings.Repeat("x", 2<<20)
	j.Record(rotated("a"), huge)
	j.Record(rotated("b"))
	j.Close()
	if got, want := pools(t, path), []string{"osm-gitops", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if j.count["lost_total"] != 1 || !strings.Contains(j.log.String(), huge.ID()) {
		t.Errorf("the log says\n%s", &j.log)
	}
}

func TestStdout(t *testing.T) {
	j := newWriter(Stdout)
	if err := j.Append(rotated("a")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Start(ctx); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if n := bytes.Count(j.Out.(*bytes.Buffer).Bytes(), []byte("\n")); n != 2 {
		t.Errorf("%d lines: %s", n, j.Out)
	}
}

// An audit log without events creates no file.
func TestUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	newWriter(path).Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
