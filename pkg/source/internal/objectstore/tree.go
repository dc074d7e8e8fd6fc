package objectstore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// Entry is one line of a tree. The zero value means that no entry exists.
type Entry struct {
	Name string
	Mode uint32
	ID   plumbing.Hash
}

// Same reports whether two entries are equal for `git log`: in content and kind; of the
// permissions only the executable bit counts.
func (e Entry) Same(other Entry) bool {
	return e.ID == other.ID && e.gitMode() == other.gitMode()
}

func (e Entry) gitMode() uint32 {
	if e.Mode&filter.ModeKind != filter.ModeFile {
		return e.Mode & filter.ModeKind
	}
	if e.Mode&filter.ModeExec != 0 {
		return filter.ModeFile | 0o755
	}
	return filter.ModeFile | 0o644
}

// Tree returns the entries of a folder in Git's order. The zero id means an empty folder.
func (o *Objects) Tree(ctx context.Context, id plumbing.Hash) ([]Entry, error) {
	if id.IsZero() {
		return nil, nil
	}
	data, err := o.Read(ctx, plumbing.TreeObject, id, maxTreeBytes)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	seen := map[string]bool{}
	for len(data) > 0 {
		e, rest, err := cutEntry(data)
		if err != nil {
			return nil, fault.New(fault.ErrInvalid, "tree %s is malformed: %v", id, err)
		}
		// Programs differ in which of two entries they use.
		if seen[string(e.name)] {
			return nil, fault.New(fault.ErrInvalid, "tree %s has two entries of the name %q", id, e.name)
		}
		seen[string(e.name)] = true
		entries = append(entries, Entry{Name: string(e.name), Mode: e.mode, ID: e.id})
		data = rest
	}
	return entries, nil
}

// Find returns the entry at a path below a tree, or the zero entry. It enters only
// folders. No parts mean the tree itself.
func (o *Objects) Find(ctx context.Context, tree plumbing.Hash, parts []string) (Entry, error) {
	at := Entry{Mode: filter.ModeFolder, ID: tree}
	for _, name := range parts {
		if at.Mode&filter.ModeKind != filter.ModeFolder || at.ID.IsZero() {
			return Entry{}, nil
		}
		data, err := o.Read(ctx, plumbing.TreeObject, at.ID, maxTreeBytes)
		if err != nil {
			return Entry{}, err
		}
		if at, err = findEntry(at.ID, data, name); err != nil {
			return Entry{}, err
		}
	}
	return at, nil
}

// findEntry finds one name without building the list: histories are long.
func findEntry(id plumbing.Hash, data []byte, name string) (Entry, error) {
	for len(data) > 0 {
		e, rest, err := cutEntry(data)
		if err != nil {
			return Entry{}, fault.New(fault.ErrInvalid, "tree %s is malformed: %v", id, err)
		}
		if string(e.name) == name {
			return Entry{Name: name, Mode: e.mode, ID: e.id}, nil
		}
		data = rest
	}
	return Entry{}, nil
}

type rawEntry struct {
	name []byte
	mode uint32
	id   plumbing.Hash
}

// cutEntry takes the first entry off a tree: mode in octal, space, name, NUL, 20 bytes of id.
func cutEntry(data []byte) (e rawEntry, rest []byte, err error) {
	space := bytes.IndexByte(data, ' ')
	if space < 1 || space > 7 {
		return e, nil, fmt.Errorf("an entry has no mode")
	}
	for _, c := range data[:space] {
		if c < '0' || c > '7' {
			return e, nil, fmt.Errorf("a mode is not octal")
		}
		e.mode = e.mode<<3 | uint32(c-'0')
	}
	end := bytes.IndexByte(data[space+1:], 0)
	if end < 1 {
		return e, nil, fmt.Errorf("an entry has no name")
	}
	e.name = data[space+1 : space+1+end]
	rest = data[space+1+end+1:]
	if len(rest) < len(e.id) {
		return e, nil, fmt.Errorf("an entry has no object id")
	}
	copy(e.id[:], rest)
	return e, rest[len(e.id):], nil
}
