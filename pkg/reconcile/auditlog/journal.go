package auditlog

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/osm-gitops/osm-gitops/pkg/journal"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

const (
	// Stdout in place of a file is standard output.
	Stdout = "stdout"
	// interval is the time between two tries to write what waits, and two looks
	// whether the file was moved away.
	interval = 10 * time.Second
	// maxWaiting bounds what is kept in memory while nothing can be written. A fact has
	// about a kilobyte.
	maxWaiting = 20_000
	// recalled is how many facts are known to be written, so that what is tried again
	// is not told again.
	recalled = 4096
)

// writer writes lines. *journal.Log and *journal.Stream are.
type writer interface {
	Append(facts ...journal.Fact) error
}

// Journal is what controllers tell facts to. Its fields are set once, before use.
type Journal struct {
	// Path of the file, or Stdout.
	Path string
	// Out is standard output.
	Out io.Writer
	// Clock is the time of lines.
	Clock clock.PassiveClock
	// Metrics counts; nil is nobody.
	Metrics *metrics.Metrics
	// Log is told what goes wrong.
	Log logr.Logger
	// Began is the first fact of this run.
	Began journal.Fact

	mu      sync.Mutex
	to      writer // nil: not open
	waiting []journal.Fact
	written map[string]bool
	order   []string // of written, oldest first
	broken  error    // of the last try; nil when it worked
	failed  string   // what was logged last
	closed  bool
}

// Start opens the journal and keeps it until ctx ends. It runs in the replica that
// leads.
func (j *Journal) Start(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		j.tick()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// tick writes what waits, and follows a file that was moved away.
func (j *Journal) tick() {
	err := j.try()
	j.mu.Lock()
	defer j.mu.Unlock()
	if file, ok := j.to.(*journal.Log); ok && err == nil {
		if err := file.Continue(); err != nil {
			j.fail(err)
		}
	}
}

// Append writes facts, after those that wait, and returns once they are kept. After an
// error they are not, or are not known to be: whoever can, gives them again. Until the
// next tick nothing else is tried then.
func (j *Journal) Append(facts ...journal.Fact) error {
	j.mu.Lock()
	err := j.broken
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return j.try(facts...)
}

func (j *Journal) try(facts ...journal.Fact) error {
	j.mu.Lock()
	facts = slices.DeleteFunc(slices.Clone(facts), func(f journal.Fact) bool { return j.written[f.ID()] || j.unfit(f) })
	all, waited := append(j.waiting, facts...), len(j.waiting)
	j.waiting = nil
	to, err := j.open()
	j.mu.Unlock()
	if err == nil && len(all) > 0 {
		err = to.Append(all...) // not locked: what comes meanwhile is written together
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.waiting, all = all[:waited:waited], j.waiting
		j.keep(all)
		j.fail(err)
		return err
	}
	j.done(all)
	return nil
}

// unfit reports whether a fact can be in no line. It would keep all others out.
func (j *Journal) unfit(f journal.Fact) bool {
	_, _, err := journal.Head{}.Next(f, j.Clock.Now())
	if err != nil {
		j.Log.Error(err, "making a line of the audit log")
		j.lose([]journal.Fact{f})
	}
	return err != nil
}

// Tell is Append for what cannot be derived again: where it cannot be written now, it is
// kept in memory and tried again.
func (j *Journal) Tell(facts ...journal.Fact) {
	if err := j.Append(facts...); err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.keep(facts)
	}
}

// Close writes what waits, if it can be written, and ends the journal. Facts that are
// lost are logged.
func (j *Journal) Close() {
	j.mu.Lock()
	unused := j.to == nil && len(j.waiting) == 0
	j.mu.Unlock()
	if !unused {
		_ = j.try() // what cannot be written is logged below
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.lose(j.waiting)
	j.waiting = nil
	if file, ok := j.to.(*journal.Log); ok {
		if err := file.Close(); err != nil {
			j.Log.Error(err, "closing the audit log")
		}
	}
}

var errClosed = errors.New("the audit log is closed: the controller is stopping")

// open opens the journal with the first fact of this run.
func (j *Journal) open() (writer, error) {
	switch {
	case j.closed:
		return nil, errClosed
	case j.to != nil:
		return j.to, nil
	}
	var to writer = &journal.Stream{Out: j.Out, Clock: j.Clock}
	if j.Path != Stdout {
		file, err := journal.Open(j.Path, j.Clock, j.Log)
		if err != nil {
			return nil, err
		}
		to = file
	}
	j.to = to
	if err := to.Append(j.Began); err != nil {
		j.waiting = append(j.waiting, j.Began)
		return nil, err
	}
	j.done([]journal.Fact{j.Began})
	return to, nil
}

// keep keeps facts until they can be written.
func (j *Journal) keep(facts []journal.Fact) {
	if j.closed {
		j.lose(facts)
		return
	}
	room := min(len(facts), max(0, maxWaiting-len(j.waiting)))
	j.waiting = append(j.waiting, facts[:room]...)
	j.lose(facts[room:])
	j.Metrics.JournalWaits(len(j.waiting))
}

// lose tells what is lost, so that it can be told apart from what never was.
func (j *Journal) lose(facts []journal.Fact) {
	for _, f := range facts {
		j.Metrics.JournalLost()
		j.Log.Error(nil, "a fact is not in the audit log", "kind", f.Kind, "id", f.ID(), "object", f.Object)
	}
}

// fail tells of a failure, once until it is another one.
func (j *Journal) fail(err error) {
	if errors.Is(err, errClosed) {
		return
	}
	j.broken = err
	j.Metrics.JournalFailed()
	if text := err.Error(); text != j.failed {
		j.failed = text
		j.Log.Error(err, "the audit log cannot be written: facts wait, and NodeProvenances are not deleted")
	}
}

// done notes what is written.
func (j *Journal) done(facts []journal.Fact) {
	j.broken = nil
	if j.failed != "" && len(facts) > 0 {
		j.failed = ""
		j.Log.Info("the audit log is written again")
	}
	if j.written == nil {
		j.written = map[string]bool{}
	}
	for _, f := range facts {
		j.Metrics.JournalWritten(string(f.Kind))
		j.written[f.ID()] = true
		j.order = append(j.order, f.ID())
	}
	for len(j.order) > recalled {
		delete(j.written, j.order[0])
		j.order = j.order[1:]
	}
	j.Metrics.JournalWaits(len(j.waiting))
}
