package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// File is one profile file.
type File struct {
	Path  string // relative to the repository's root, with forward slashes
	Blob  string // its object id, computed in the same way for files of a directory
	Data  []byte
	Dirty bool // directories only: the content differs from that at Head, or Head has no commit
}

// MoreRejected is the path of the last RejectedEntry in a truncated list. No entry of a
// repository can have this name.
const MoreRejected = "..."

// RejectedEntry is an entry that was not read.
type RejectedEntry struct {
	Path   string // printable: unusual characters are escaped as in Go
	Reason string
}

const TooDeep = "too deep: folders are entered to a depth of 32" // maxDepth

// Quota limits the files of one snapshot.
type Quota struct {
	files int
	bytes int64
}

// Admit counts a file, or returns why it is rejected.
func (q *Quota) Admit(size int64) string {
	switch {
	case size > MaxFileBytes:
		return fmt.Sprintf("too big: %d bytes, at most %d are read", size, MaxFileBytes)
	case q.files == MaxFiles:
		return fmt.Sprintf("too many files: the first %d are read", MaxFiles)
	case q.bytes+size > maxTotalBytes:
		return fmt.Sprintf("too many bytes: %d in all are read", maxTotalBytes)
	}
	q.files++
	q.bytes += size
	return ""
}

// RejectedEntries is a list with a maximum length.
type RejectedEntries struct {
	list []RejectedEntry
	more int
}

func (r *RejectedEntries) Add(path, reason string) {
	if len(r.list) == MaxRefusals {
		r.more++
		return
	}
	r.list = append(r.list, RejectedEntry{Path: fault.EscapeUnprintable(path), Reason: reason})
}

func (r *RejectedEntries) Sorted() []RejectedEntry {
	list := slices.Clone(r.list)
	slices.SortFunc(list, func(a, b RejectedEntry) int { return strings.Compare(a.Path, b.Path) })
	if r.more > 0 {
		list = append(list, RejectedEntry{Path: MoreRejected, Reason: fmt.Sprintf("and %d more", r.more)})
	}
	return list
}

func JoinPath(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "/" + name
}
