package auditlog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// BrokenError names the first line that does not continue the chain.
type BrokenError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *BrokenError) Unwrap() error { return e.Err }

// Summary describes files with an intact chain.
type Summary struct {
	// Files by name, in the order of their lines, without empty ones.
	Files []string
	// First is the number of the first line, Lines their count.
	First uint64
	Lines int
	// Last is the end of the chain. An auditor who stores its hash elsewhere can later detect
	// changes up to that line.
	Last Head
	// Anchored reports whether the line with the given hash was found.
	Anchored bool
}

// Verify checks that the lines of files form one chain without a gap. The files can be in
// any order and compressed by gzip. The first line can have any number, if earlier lines
// are elsewhere. Anchor is a stored hash, or "". Visit, if not nil, is called for each
// line. The error is a *BrokenError if a line is wrong.
func Verify(paths []string, anchor string, visit func(Entry)) (Summary, error) {
	files, err := sortBySequence(paths)
	if err != nil {
		return Summary{}, err
	}
	v := verifier{anchor: anchor, visit: visit}
	for _, f := range files {
		if err := v.verifyFile(f.path); err != nil {
			return v.summary, err
		}
		v.summary.Files = append(v.summary.Files, f.path)
	}
	return v.summary, nil
}

// sequencedFile is a file with the position of its lines.
type sequencedFile struct {
	path  string
	first uint64
}

// sortBySequence sorts files by their first line, and omits empty ones.
func sortBySequence(paths []string) ([]sequencedFile, error) {
	var out []sequencedFile
	for _, path := range paths {
		first, empty, err := firstSequence(path)
		if err != nil {
			return nil, err
		}
		if !empty {
			out = append(out, sequencedFile{path, first})
		}
	}
	slices.SortStableFunc(out, func(a, b sequencedFile) int { return cmp.Compare(a.first, b.first) })
	return out, nil
}

// firstSequence returns the number of the first line of a file.
func firstSequence(path string) (first uint64, empty bool, err error) {
	f, err := openLines(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	if !f.Scan() {
		return 0, f.Err() == nil, f.readError(1)
	}
	e, err := parse(bytes.TrimSuffix(f.Bytes(), []byte("\n")))
	if err != nil {
		return 0, false, &BrokenError{path, 1, err}
	}
	return e.Sequence, false, nil
}

type verifier struct {
	anchor  string
	visit   func(Entry)
	summary Summary
}

// verifyFile checks the lines of one file.
func (v *verifier) verifyFile(path string) error {
	f, err := openLines(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n := 0
	for f.Scan() {
		n++
		line, isComplete := bytes.CutSuffix(f.Bytes(), []byte("\n"))
		if !isComplete {
			return &BrokenError{path, n, errors.New("it is truncated: the controller is writing it or has ended, and repairs it when it starts again")}
		}
		if v.summary.Lines == 0 {
			e, err := parse(line)
			if err != nil {
				return &BrokenError{path, n, err}
			}
			v.summary.First, v.summary.Last = e.Sequence, Head{Sequence: e.Sequence - 1, Hash: e.Before}
		}
		e, head, err := v.summary.Last.Check(line)
		if err != nil {
			return &BrokenError{path, n, err}
		}
		v.summary.Last = head
		v.summary.Lines++
		v.summary.Anchored = v.summary.Anchored || v.anchor != "" && head.Hash == v.anchor
		if v.visit != nil {
			v.visit(e)
		}
	}
	return f.readError(n + 1)
}

// lines reads a file line by line, each with its line feed.
type lines struct {
	*bufio.Scanner
	path string
	file *os.File
}

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening an audit log: %w", err)
	}
	buffered := bufio.NewReader(f)
	var from io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // gzip's: RFC 1952, 2.3.1
		if from, err = gzip.NewReader(buffered); err != nil {
			f.Close()
			return nil, fmt.Errorf("opening an audit log: %s: %w", path, err)
		}
	}
	s := bufio.NewScanner(from)
	const first = 64 << 10
	// The line feed does not count for the limit.
	s.Buffer(make([]byte, 0, first), maxLine+1)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i+1], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	return &lines{s, path, f}, nil
}

func (l *lines) Close() { l.file.Close() }

// readError returns why a line could not be read.
func (l *lines) readError(line int) error {
	err := l.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return &BrokenError{l.path, line, fmt.Errorf("it has more than %d bytes: it is not a line of an audit log", maxLine)}
	case err != nil:
		return &BrokenError{l.path, line, err}
	}
	return nil
}
