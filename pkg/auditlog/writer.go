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
)

const (
	// Stdout instead of a path writes to standard output.
	Stdout = "stdout"
	// interval is the interval of retries for waiting events, and of checks whether the file
	// was moved away.
	interval = 10 * time.Second
	// maxWaiting bounds the events in memory while writing fails. An event has about a kilobyte.
	maxWaiting = 20_000
	// recalled is the number of written events that are remembered, so that retries do not
	// write them twice.
	recalled = 4096
)

// lineWriter is a *Log or a *Stream.
type lineWriter interface {
	Append(events ...Event) error
}

// Metrics counts what a Writer does.
type Metrics interface {
	AuditEntryWritten(kind string)
	AuditWriteFailed()
	AuditEntriesWaiting(n int)
	AuditEntryLost()
}

type noMetrics struct{}

func (noMetrics) AuditEntryWritten(string) {}
func (noMetrics) AuditWriteFailed()        {}
func (noMetrics) AuditEntriesWaiting(int)  {}
func (noMetrics) AuditEntryLost()          {}

// Writer writes the audit log of a running controller: it opens the log once this replica
// leads, and stores in memory what could not be written. Provisioning never waits for it.
// Use Append for events that can be derived again from an object, and record on the object
// that they are written; use Record for events that occur only once. Set the fields once,
// before use.
type Writer struct {
	// Path of the file, or Stdout.
	Path string
	// Out is standard output.
	Out io.Writer
	// Clock is the source of the time in lines.
	Clock clock.PassiveClock
	// Metrics is optional.
	Metrics Metrics
	// Log reports failures.
	Log logr.Logger
	// Began is the first event of this run.
	Began Event

	mu      sync.Mutex
	to      lineWriter // nil: not open
	waiting []Event
	written map[string]bool
	order   []string // oldest first
	broken  error    // of the last attempt; nil on success
	failed  string   // last logged failure
	closed  bool
}

func (w *Writer) metrics() Metrics {
	if w.Metrics == nil {
		return noMetrics{}
	}
	return w.Metrics
}

// Start opens the audit log and writes until ctx ends. It runs in the leading replica.
func (w *Writer) Start(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		w.writeWaiting()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// writeWaiting writes waiting events, and follows a file that was moved away.
func (w *Writer) writeWaiting() {
	err := w.appendAfterWaiting()
	w.mu.Lock()
	defer w.mu.Unlock()
	if file, ok := w.to.(*Log); ok && err == nil {
		if err := file.ContinueAfterRotation(); err != nil {
			w.logFailure(err)
		}
	}
}

// Append writes events after those that wait, and returns once they are stored. After an
// error they are not stored, or not known to be, and the caller should append them again.
// Until the next tick further calls fail immediately.
func (w *Writer) Append(events ...Event) error {
	w.mu.Lock()
	err := w.broken
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.appendAfterWaiting(events...)
}

// appendAfterWaiting writes the waiting events, and then these. After an error only those that
// waited before are queued again.
func (w *Writer) appendAfterWaiting(events ...Event) error {
	w.mu.Lock()
	events = slices.DeleteFunc(slices.Clone(events), func(f Event) bool { return w.written[f.ID()] || w.logIfUnwritable(f) })
	all, waited := append(w.waiting, events...), len(w.waiting)
	// While these are written, no other call writes them again.
	w.waiting = nil
	to, err := w.openAndAppendFirst()
	w.mu.Unlock()
	if err == nil && len(all) > 0 {
		err = to.Append(all...) // without the lock, so that concurrent events are written together
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		// Only those that waited before continue to wait: the caller repeats its own after the
		// error.
		w.waiting, all = all[:waited:waited], w.waiting
		w.enqueue(all)
		w.logFailure(err)
		return err
	}
	w.recordWrittenIDs(all)
	return nil
}

// logIfUnwritable reports whether an event can never be written. It would block all others.
func (w *Writer) logIfUnwritable(f Event) bool {
	_, _, err := Head{}.EncodeNext(f, w.Clock.Now())
	if err != nil {
		w.Log.Error(err, "formatting a line of the audit log")
		w.logLost([]Event{f})
	}
	return err != nil
}

// Record is Append for events that cannot be derived again: if the write fails, it stores them
// in memory and retries.
func (w *Writer) Record(events ...Event) {
	if err := w.Append(events...); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.enqueue(events)
	}
}

// Close writes waiting events if possible, and ends the audit log. Lost events are logged.
func (w *Writer) Close() {
	w.mu.Lock()
	unused := w.to == nil && len(w.waiting) == 0
	w.mu.Unlock()
	if !unused {
		_ = w.appendAfterWaiting() // what cannot be written is logged below
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.logLost(w.waiting)
	w.waiting = nil
	if file, ok := w.to.(*Log); ok {
		if err := file.Close(); err != nil {
			w.Log.Error(err, "closing the audit log")
		}
	}
}

var errClosed = errors.New("the audit log is closed: the controller is stopping")

// openAndAppendFirst opens the audit log with the first event of this run.
func (w *Writer) openAndAppendFirst() (lineWriter, error) {
	switch {
	case w.closed:
		return nil, errClosed
	case w.to != nil:
		return w.to, nil
	}
	var to lineWriter = &Stream{Out: w.Out, Clock: w.Clock}
	if w.Path != Stdout {
		file, err := Open(w.Path, w.Clock, w.Log)
		if err != nil {
			return nil, err
		}
		to = file
	}
	w.to = to
	if err := to.Append(w.Began); err != nil {
		w.waiting = append(w.waiting, w.Began)
		return nil, err
	}
	w.recordWrittenIDs([]Event{w.Began})
	return to, nil
}

// enqueue stores events in memory until they can be written.
func (w *Writer) enqueue(events []Event) {
	if w.closed {
		w.logLost(events)
		return
	}
	// What does not fit is only in the log of the process.
	free := min(len(events), max(0, maxWaiting-len(w.waiting)))
	w.waiting = append(w.waiting, events[:free]...)
	w.logLost(events[free:])
	w.metrics().AuditEntriesWaiting(len(w.waiting))
}

// logLost logs lost events, to distinguish them from events that never occurred.
func (w *Writer) logLost(events []Event) {
	for _, f := range events {
		w.metrics().AuditEntryLost()
		w.Log.Error(nil, "a fact is not in the audit log", "kind", f.Kind, "id", f.ID(), "object", f.Object)
	}
}

// logFailure logs a failure once, until another one occurs.
func (w *Writer) logFailure(err error) {
	if errors.Is(err, errClosed) {
		return
	}
	w.broken = err
	w.metrics().AuditWriteFailed()
	if text := err.Error(); text != w.failed {
		w.failed = text
		w.Log.Error(err, "the audit log cannot be written: facts wait in memory, and NodeProvenances are not deleted")
	}
}

// recordWrittenIDs remembers written events, so that they are not written twice.
func (w *Writer) recordWrittenIDs(events []Event) {
	w.broken = nil
	if w.failed != "" && len(events) > 0 {
		w.failed = ""
		w.Log.Info("the audit log is written again")
	}
	if w.written == nil {
		w.written = map[string]bool{}
	}
	for _, f := range events {
		w.metrics().AuditEntryWritten(string(f.Kind))
		w.written[f.ID()] = true
		w.order = append(w.order, f.ID())
	}
	for len(w.order) > recalled {
		delete(w.written, w.order[0])
		w.order = w.order[1:]
	}
	w.metrics().AuditEntriesWaiting(len(w.waiting))
}
