package auditlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Suffixes of files next to the log.
const (
	lockSuffix = ".lock"
	tornSuffix = ".torn-"
)

// openFile opens a log for appending, and creates it if it is missing.
func openFile(path string) (*os.File, error) {
	_, before := os.Lstat(path)
	// Opening a pipe without a reader would block.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("opening the audit log %s: it is not a regular file: name one, or stdout", path)
	}
	if err == nil && errors.Is(before, os.ErrNotExist) {
		err = syncParentDir(path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// syncParentDir makes new names in the folder durable.
func syncParentDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("syncing the folder of the audit log: %w", err)
	}
	return nil
}

// tail is the end of a log.
type tail struct {
	head     Head  // zero without a line
	complete int64 // size of complete lines
	torn     int64 // bytes after them
}

// tailBlock is the size of a read from the end backwards.
const tailBlock = 16 << 10 // 16 KiB

// readTail finds the last line from the end, so the size of the file does not matter. It
// rejects a file with other content.
func readTail(f *os.File) (tail, error) {
	info, err := f.Stat()
	if err != nil {
		return tail{}, err
	}
	var end []byte // from at on
	at := info.Size()
	// Text after the last line feed is truncated; the last line ends with that line feed.
	for at > 0 && bytes.Count(end, []byte("\n")) < 2 && len(end) <= 2*maxLine {
		n := min(at, tailBlock)
		block := make([]byte, n, int(n)+len(end))
		if _, err := f.ReadAt(block, at-n); err != nil {
			return tail{}, fmt.Errorf("reading the end of the audit log: %w", err)
		}
		end, at = append(block, end...), at-n
	}
	last := bytes.LastIndexByte(end, '\n')
	t := tail{complete: at + int64(last) + 1, torn: int64(len(end) - last - 1)}
	switch {
	case last < 0 && at > 0:
		return t, newForeignFileError(f, fmt.Errorf("its last line has more than %d bytes", maxLine))
	case last < 0 && len(end) > 0 && !isLinePrefix(end):
		return t, newForeignFileError(f, errors.New("its only line is not an entry"))
	case last < 0:
		return t, nil
	}
	line := end[bytes.LastIndexByte(end[:last], '\n')+1 : last]
	e, err := parse(line)
	if err != nil {
		return t, newForeignFileError(f, err)
	}
	t.head = Head{Sequence: e.Sequence, Hash: hashOf(line)}
	return t, nil
}

// isLinePrefix reports whether a text can be the beginning of a truncated line. A crash can
// leave zeros of a block that was never written.
func isLinePrefix(text []byte) bool {
	const start = `{"recipe":"`
	text = bytes.TrimRight(text, "\x00")
	n := min(len(text), len(start))
	return string(text[:n]) == start[:n]
}

func newForeignFileError(f *os.File, err error) error {
	return fmt.Errorf("reading the end of the audit log %s: %w: the file is unchanged: move it away, or name another", f.Name(), err)
}

// findRotatedHead finds the end of the chain in the files next to an empty log, after the log was
// moved away. The latest file counts; compressed files are not read.
func (l *Log) findRotatedHead() (Head, error) {
	dir, base := filepath.Split(l.path)
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return Head{}, fmt.Errorf("searching for the previous audit log: %w", err)
	}
	var newest Head
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), base)
		rotated := ok && (strings.HasPrefix(suffix, ".") || strings.HasPrefix(suffix, "-"))
		if !rotated || suffix == lockSuffix || strings.HasPrefix(suffix, tornSuffix) || !e.Type().IsRegular() {
			continue
		}
		if head := headOf(filepath.Join(dir, e.Name())); head.Sequence > newest.Sequence {
			newest = head
		}
	}
	return newest, nil
}

// headOf returns the end of another file; zero if it is not a log.
func headOf(path string) Head {
	f, err := os.Open(path)
	if err != nil {
		return Head{}
	}
	defer f.Close()
	t, err := readTail(f)
	if err != nil {
		return Head{}
	}
	return t.head
}
