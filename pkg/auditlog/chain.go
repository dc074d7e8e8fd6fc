package auditlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Recipe is the version of the format and hash of lines, and part of each line. It changes
// whenever a field is added, so that an older release reports an unknown recipe and not an
// edited line. Fields are never removed.
const Recipe = "v1"

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20 // 1 MiB

// Entry is a line.
type Entry struct {
	Recipe   string    `json:"recipe"`
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	// Before is the hash of the previous line without its line feed: "sha256:<64 hex>". The
	// first line of a chain has none.
	Before string `json:"before"`
	// ID is the ID of the event.
	ID string `json:"id"`
	Event
}

// Head is the end of a chain: the number and the hash of its last line. The zero value is
// an empty chain.
type Head struct {
	Sequence uint64
	Hash     string
}

// EncodeNext formats the next line, without its line feed.
func (h Head) EncodeNext(f Event, at time.Time) (line []byte, next Head, err error) {
	e := Entry{Recipe: Recipe, Sequence: h.Sequence + 1, Time: at.UTC().Truncate(time.Millisecond), Before: h.Hash, ID: f.ID(), Event: f}
	line, err = encodeJSON(e)
	if err != nil {
		return nil, h, fmt.Errorf("encoding a fact of kind %s about %s %s: %w", f.Kind, f.Object.Kind, f.Object.Name, err)
	}
	if len(line) > maxLine {
		return nil, h, fmt.Errorf("a fact of kind %s about %s %s has %d bytes, of at most %d for a line", f.Kind, f.Object.Kind, f.Object.Name, len(line), maxLine)
	}
	return line, Head{Sequence: e.Sequence, Hash: hashOf(line)}, nil
}

// encodeNextLines formats the next lines, each with its line feed.
func (h Head) encodeNextLines(events []Event, at time.Time) (text []byte, next Head, err error) {
	for _, f := range events {
		var line []byte
		if line, h, err = h.EncodeNext(f, at); err != nil {
			return nil, h, err
		}
		text = append(append(text, line...), '\n')
	}
	return text, h, nil
}

// Check parses a line without its line feed and checks that it follows.
func (h Head) Check(line []byte) (Entry, Head, error) {
	e, err := parse(line)
	if err != nil {
		return Entry{}, h, err
	}
	switch {
	case e.Sequence == h.Sequence+1 && e.Before == h.Hash:
		return e, Head{Sequence: e.Sequence, Hash: hashOf(line)}, nil
	case e.Sequence == h.Sequence+1:
		return e, h, fmt.Errorf("it follows a line with hash %q, but the previous line has %q: the previous line was changed", e.Before, h.Hash)
	case e.Sequence == 1:
		return e, h, fmt.Errorf("another chain begins after line number %d: lines between may be missing", h.Sequence)
	}
	return e, h, fmt.Errorf("it has number %d, after %d: %s", e.Sequence, h.Sequence, describeGap(h.Sequence, e.Sequence))
}

func describeGap(before, now uint64) string {
	if now <= before {
		return "lines were repeated or reordered"
	}
	return fmt.Sprintf("%d lines between are missing", now-before-1)
}

// parse decodes a line. It must have exactly the bytes that the controller writes.
func parse(line []byte) (Entry, error) {
	var e Entry
	var made struct {
		Recipe string `json:"recipe"`
	}
	if err := json.Unmarshal(line, &made); err != nil {
		return e, fmt.Errorf("it is not a line of an audit log: %w", err)
	}
	// The recipe comes before the strict decoding, so that a line of a newer release is
	// recognized.
	if made.Recipe != Recipe {
		return e, fmt.Errorf("its recipe is %q, this release has %q: another release wrote it", made.Recipe, Recipe)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("it is not a line of an audit log: %w", err)
	}
	again, err := encodeJSON(e)
	if err != nil {
		return e, fmt.Errorf("it is not a line of an audit log: %w", err)
	}
	switch {
	case !bytes.Equal(again, line):
		return e, errors.New("it is not in the controller's format: it was changed")
	case e.ID != e.Event.ID():
		return e, fmt.Errorf("its id is %q, expected %q: it was changed", e.ID, e.Event.ID())
	case e.Sequence == 0 || (e.Sequence == 1) != (e.Before == ""):
		return e, fmt.Errorf("it has number %d and follows %q: it was changed", e.Sequence, e.Before)
	}
	return e, nil
}

// hashOf returns the hash of a line without its line feed.
func hashOf(line []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(line))
}
