package auditlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// ErrLocked says that another process writes the file.
var ErrLocked = errors.New("another process writes it")

// Log is an audit log in a file. It is safe for concurrent use: events that arrive during a
// write are written together, with one sync.
//
// Before each write it checks whether the file is unchanged. If the file was moved away
// (logrotate with or without create), a new file continues the chain. After a failure the
// log reads the end of the file again.
type Log struct {
	path  string
	clock clock.PassiveClock
	log   logr.Logger

	mu   sync.Mutex
	next *batch // waiting events; nil for none

	io           sync.Mutex // locked while the file is checked and written
	lock         *os.File
	file         *os.File // nil: to be opened
	size         int64    // of file, after our last write
	head         Head
	headVerified bool    // head belongs to the chain
	first        []Event // to be written before all others

	closed bool
}

// batch contains events that are written together.
type batch struct {
	events  []Event
	written bool // also after a failure
	err     error
}

// CheckWritable returns an error if no audit log can be written to a file. It creates a missing
// file, and changes nothing in an existing one.
func CheckWritable(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = readTail(f)
	return err
}

// Open locks the file for this process until Close or the end of the process. A truncated
// line at its end, after a crash or on a full disk, is moved to a separate file. ErrLocked
// means that another process has the lock.
func Open(path string, now clock.PassiveClock, log logr.Logger) (*Log, error) {
	l := &Log{path: path, clock: now, log: log.WithValues("file", path)}
	lock, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the audit log: %w", err)
	}
	// A separate lock file, since the log can be moved away at any time.
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("locking the audit log %s: %w", path, err)
	}
	l.lock = lock
	if err := l.open(); err != nil {
		lock.Close()
		return nil, err
	}
	return l, nil
}

// Close releases the file. Nothing is written afterwards.
func (l *Log) Close() error {
	l.io.Lock()
	defer l.io.Unlock()
	l.closeFile()
	l.closed = true
	return l.lock.Close()
}

// Append writes events, one line each, and returns once they are on disk. After an error
// none of them is written: the caller has to append them again.
func (l *Log) Append(events ...Event) error {
	for _, f := range events { // so that one invalid event does not fail the others
		if _, _, err := (Head{}).EncodeNext(f, l.clock.Now()); err != nil {
			return err
		}
	}
	l.mu.Lock()
	b := l.next
	if b == nil {
		b = &batch{}
		l.next = b
	}
	b.events = append(b.events, events...)
	l.mu.Unlock()

	// While a batch is written, later events collect in the next one: one Sync serves all of
	// them.
	l.io.Lock()
	defer l.io.Unlock()
	if b.written { // by another waiting caller
		return b.err
	}
	// Events that arrive from now on belong to the next batch.
	l.mu.Lock()
	l.next = nil
	l.mu.Unlock()
	b.written, b.err = true, l.write(b.events)
	return b.err
}

// ContinueAfterRotation writes the first line of a file that replaces one that was moved away, if there
// is such a file.
func (l *Log) ContinueAfterRotation() error {
	l.io.Lock()
	defer l.io.Unlock()
	if err := l.ensureCurrentFile(); err != nil {
		return err
	}
	if len(l.first) == 0 {
		return nil
	}
	return l.write(nil)
}

// write is the only function that writes lines.
func (l *Log) write(events []Event) error {
	if err := l.ensureCurrentFile(); err != nil {
		return err
	}
	text, head, err := l.head.encodeNextLines(slices.Concat(l.first, events), l.clock.Now())
	if err != nil || len(text) == 0 {
		return err
	}
	if _, err = l.file.Write(text); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// None of it counts. If truncating fails, the next check of the file finds the complete
		// lines and the rest.
		err = errors.Join(fmt.Errorf("writing the audit log: %w", err), l.file.Truncate(l.size))
		l.closeFile()
		return err
	}
	l.head = head
	l.headVerified = true
	l.first = nil
	l.size += int64(len(text))
	return nil
}

// ensureCurrentFile ensures that the open file has the path of the log and is unchanged.
func (l *Log) ensureCurrentFile() error {
	if l.closed {
		return fmt.Errorf("writing the audit log %s: %w", l.path, os.ErrClosed)
	}
	if l.file != nil {
		named, err := os.Stat(l.path)
		opened, err2 := l.file.Stat()
		if err == nil && err2 == nil && os.SameFile(named, opened) && opened.Size() == l.size {
			return nil
		}
		if err == nil && err2 == nil && os.SameFile(named, opened) {
			l.log.Info("another process changed the audit log", "bytes", opened.Size(), "want", l.size)
		}
		l.closeFile()
	}
	return l.open()
}

func (l *Log) closeFile() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// open opens the file and finds the end of its chain.
func (l *Log) open() error {
	f, err := openFile(l.path)
	if err != nil {
		return err
	}
	if err := l.continueChain(f); err != nil {
		f.Close()
		return err
	}
	l.file = f
	return nil
}

// continueChain continues the chain of a file.
func (l *Log) continueChain(f *os.File) error {
	t, err := readTail(f)
	if err != nil {
		return err
	}
	if t.torn > 0 {
		repaired, err := l.moveTruncatedLine(f, t)
		if err != nil {
			return err
		}
		l.queueFirst(repaired)
	}
	l.size = t.complete
	head := t.head
	if t.head == (Head{}) && !l.headVerified {
		if head, err = l.findRotatedHead(); err != nil {
			return err
		}
	}
	// After lines were removed, continue from the known end: the gap reveals the removal.
	if !l.headVerified || head.Sequence > l.head.Sequence {
		l.head = head
	} else if t.head != (Head{}) && t.head != l.head {
		l.log.Info("the end of the audit log differs from the last written line", "sequence", t.head.Sequence, "want", l.head.Sequence)
	}
	l.headVerified = l.headVerified || l.head != Head{}
	if t.complete == 0 && l.head != (Head{}) {
		l.queueFirst(Event{
			Kind: LogContinued, Object: Object{Kind: fileKind, Name: l.path}, Key: l.head.Hash,
			Message: fmt.Sprintf("it continues a file that was moved away; the last line has number %d", l.head.Sequence),
		})
	}
	return nil
}

// queueFirst queues an event before all others, once: after a failed write it is still queued.
func (l *Log) queueFirst(f Event) {
	if !slices.ContainsFunc(l.first, func(other Event) bool { return other.ID() == f.ID() }) {
		l.first = append(l.first, f)
	}
}

// moveTruncatedLine moves a truncated last line to a separate file, and returns the event that
// records this.
func (l *Log) moveTruncatedLine(f *os.File, t tail) (Event, error) {
	name, err := l.saveTruncated(f, t)
	if err != nil {
		return Event{}, fmt.Errorf("saving the truncated end of the audit log: %w", err)
	}
	// The line is removed only after its copy is on disk.
	if err := errors.Join(f.Truncate(t.complete), f.Sync()); err != nil {
		return Event{}, fmt.Errorf("repairing the end of the audit log: %w", err)
	}
	l.log.Info("repaired a truncated line of the audit log", "bytes", t.torn, "kept", name)
	return Event{
		Kind: LogRepaired, Object: Object{Kind: fileKind, Name: l.path}, Key: name,
		Message: fmt.Sprintf("a line was truncated to %d bytes, which are in %s", t.torn, name),
	}, nil
}

// saveTruncated copies the truncated line to a new file, and returns its name.
func (l *Log) saveTruncated(from *os.File, t tail) (string, error) {
	timestamp := l.clock.Now().UTC().Format("20060102T150405.000000000Z")
	path := l.path + tornSuffix + timestamp
	into, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer into.Close()
	if _, err := io.Copy(into, io.NewSectionReader(from, t.complete, t.torn)); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return filepath.Base(path), errors.Join(into.Sync(), syncParentDir(path))
}

// fileKind is the kind of objects that are files.
const fileKind = "File"
