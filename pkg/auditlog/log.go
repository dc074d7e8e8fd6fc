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

// ErrHeld says that another process writes the file.
var ErrHeld = errors.New("another process writes it")

// Log is a journal in a file. It is safe for concurrent use: what comes while a write
// is under way is written together, and waits once for the disk.
//
// Before each write it looks whether the file is as it left it. One that was moved
// away (logrotate with create, or without) is followed by a new one that goes on with
// the chain. After a failure it looks at the file anew.
type Log struct {
	path  string
	clock clock.PassiveClock
	log   logr.Logger

	mu   sync.Mutex
	next *batch // what waits; nil for nothing

	io    sync.Mutex // held while the file is looked at and written
	lock  *os.File
	file  *os.File // nil: to be opened
	size  int64    // of file, as we left it
	head  Head
	known bool   // head is that of the chain
	first []Fact // to be told before anything else

	closed bool
}

// batch is what is written together.
type batch struct {
	facts   []Fact
	written bool // or failed
	err     error
}

// Check says whether a journal can be kept in a file, before somebody relies on it. It
// makes the file if there is none, and changes nothing else.
func Check(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = readTail(f)
	return err
}

// Open takes the file for this process until Close, or until the process ends. What was
// cut off at its end, by a crash or by a full disk, is moved beside it. ErrHeld:
// another process has it.
func Open(path string, now clock.PassiveClock, log logr.Logger) (*Log, error) {
	l := &Log{path: path, clock: now, log: log.WithValues("file", path)}
	lock, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the audit log: %w", err)
	}
	// A file of its own, since the log itself may be moved away at any time.
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrHeld
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

// Close gives the file to others. Nothing is written after it.
func (l *Log) Close() error {
	l.io.Lock()
	defer l.io.Unlock()
	l.shut()
	l.closed = true
	return l.lock.Close()
}

// Append writes facts, one line each, and returns once the disk has them. After an
// error none of them counts: they have to be given again.
func (l *Log) Append(facts ...Fact) error {
	for _, f := range facts { // so that one fact does not fail those of others
		if _, _, err := (Head{}).Next(f, l.clock.Now()); err != nil {
			return err
		}
	}
	l.mu.Lock()
	b := l.next
	if b == nil {
		b = &batch{}
		l.next = b
	}
	b.facts = append(b.facts, facts...)
	l.mu.Unlock()

	l.io.Lock()
	defer l.io.Unlock()
	if b.written { // by somebody who waited as well
		return b.err
	}
	l.mu.Lock()
	l.next = nil
	l.mu.Unlock()
	b.written, b.err = true, l.write(b.facts)
	return b.err
}

// Continue writes the first line of a file that came in place of one that was moved
// away, if there is such a file.
func (l *Log) Continue() error {
	l.io.Lock()
	defer l.io.Unlock()
	if err := l.current(); err != nil {
		return err
	}
	if len(l.first) == 0 {
		return nil
	}
	return l.write(nil)
}

// write is the one place that writes lines.
func (l *Log) write(facts []Fact) error {
	if err := l.current(); err != nil {
		return err
	}
	head, now := l.head, l.clock.Now()
	var text []byte
	for _, f := range append(l.first[:len(l.first):len(l.first)], facts...) {
		line, next, err := head.Next(f, now)
		if err != nil {
			return err
		}
		text, head = append(append(text, line...), '\n'), next
	}
	if len(text) == 0 {
		return nil
	}
	_, err := l.file.Write(text)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// Nothing of it counts. Where it cannot be taken back, the next look at the file
		// finds what is whole of it, and what is not.
		err = errors.Join(fmt.Errorf("writing the audit log: %w", err), l.file.Truncate(l.size))
		l.shut()
		return err
	}
	l.head, l.known, l.first = head, true, nil
	l.size += int64(len(text))
	return nil
}

// current makes sure that the file is the one of that name, as it was left.
func (l *Log) current() error {
	if l.closed {
		return fmt.Errorf("writing the audit log %s: %w", l.path, os.ErrClosed)
	}
	if l.file != nil {
		named, err := os.Stat(l.path)
		held, err2 := l.file.Stat()
		if err == nil && err2 == nil && os.SameFile(named, held) && held.Size() == l.size {
			return nil
		}
		if err == nil && err2 == nil && os.SameFile(named, held) {
			l.log.Info("somebody else changed the audit log", "bytes", held.Size(), "want", l.size)
		}
		l.shut()
	}
	return l.open()
}

func (l *Log) shut() {
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
	if err := l.adopt(f); err != nil {
		f.Close()
		return err
	}
	l.file = f
	return nil
}

// adopt takes up the chain of a file.
func (l *Log) adopt(f *os.File) error {
	t, err := readTail(f)
	if err != nil {
		return err
	}
	if t.torn > 0 {
		repaired, err := l.repair(f, t)
		if err != nil {
			return err
		}
		l.announce(repaired)
	}
	l.size = t.whole
	head := t.head
	if t.head == (Head{}) && !l.known {
		if head, err = l.moved(); err != nil {
			return err
		}
	}
	// Lines that were taken away are missed: whoever did that shortened the chain.
	if !l.known || head.Sequence > l.head.Sequence {
		l.head = head
	} else if t.head != (Head{}) && t.head != l.head {
		l.log.Info("the end of the audit log is not what was written last", "sequence", t.head.Sequence, "want", l.head.Sequence)
	}
	l.known = l.known || l.head != Head{}
	if t.whole == 0 && l.head != (Head{}) {
		l.announce(Fact{
			Kind: LogContinued, Object: Object{Kind: fileKind, Name: l.path}, Occasion: l.head.Hash,
			Message: fmt.Sprintf("it continues a file that was moved away, whose last line has number %d", l.head.Sequence),
		})
	}
	return nil
}

// announce tells a fact before anything else, once: a write that failed did not.
func (l *Log) announce(f Fact) {
	if !slices.ContainsFunc(l.first, func(other Fact) bool { return other.ID() == f.ID() }) {
		l.first = append(l.first, f)
	}
}

// repair moves what was cut off beside the file, and takes it out of it.
func (l *Log) repair(f *os.File, t tail) (Fact, error) {
	name, err := l.keepTorn(f, t)
	if err != nil {
		return Fact{}, fmt.Errorf("keeping what was cut off at the end of the audit log: %w", err)
	}
	if err := errors.Join(f.Truncate(t.whole), f.Sync()); err != nil {
		return Fact{}, fmt.Errorf("repairing the end of the audit log: %w", err)
	}
	l.log.Info("a line of the audit log had been cut off", "bytes", t.torn, "kept", name)
	return Fact{
		Kind: LogRepaired, Object: Object{Kind: fileKind, Name: l.path}, Occasion: name,
		Message: fmt.Sprintf("a line of %d bytes had been cut off: it is kept in %s", t.torn, name),
	}, nil
}

// keepTorn copies what was cut off into a file of its own, and returns its name.
func (l *Log) keepTorn(from *os.File, t tail) (string, error) {
	stamp := l.clock.Now().UTC().Format("20060102T150405.000000000Z")
	path := l.path + tornSuffix + stamp
	into, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer into.Close()
	if _, err := io.Copy(into, io.NewSectionReader(from, t.whole, t.torn)); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return filepath.Base(path), errors.Join(into.Sync(), syncDir(path))
}

// fileKind is the kind of object that a file is.
const fileKind = "File"
