package source

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// entry is one line of a tree. The zero value stands for "there is none".
type entry struct {
	name string
	mode uint32
	id   plumbing.Hash
}

// same tells whether two entries are equal as `git log` sees them: in content and
// kind, of the permissions only the executable bit.
func (e entry) same(other entry) bool {
	return e.id == other.id && e.gitMode() == other.gitMode()
}

func (e entry) gitMode() uint32 {
	if e.mode&filter.ModeKind != filter.ModeFile {
		return e.mode & filter.ModeKind
	}
	if e.mode&filter.ModeExec != 0 {
		return filter.ModeFile | 0o755
	}
	return filter.ModeFile | 0o644
}

// tree returns the entries of a folder in Git's order. The zero id is an empty folder.
func (o *objects) tree(ctx context.Context, id plumbing.Hash) ([]entry, error) {
	if id.IsZero() {
		return nil, nil
	}
	data, err := o.read(ctx, plumbing.TreeObject, id, maxTreeBytes)
	if err != nil {
		return nil, err
	}
	var entries []entry
	seen := map[string]bool{}
	for len(data) > 0 {
		e, rest, err := cutEntry(data)
		if err != nil {
			return nil, fault.New(fault.ErrInvalid, "tree %s is malformed: %v", id, err)
		}
		if seen[string(e.name)] {
			return nil, fault.New(fault.ErrInvalid, "tree %s has two entries of the name %q", id, e.name)
		}
		seen[string(e.name)] = true
		entries = append(entries, entry{name: string(e.name), mode: e.mode, id: e.id})
		data = rest
	}
	return entries, nil
}

// find returns the entry at a path below a tree, or the zero entry. Only folders
// are entered. No parts are the tree itself.
func (o *objects) find(ctx context.Context, tree plumbing.Hash, parts []string) (entry, error) {
	at := entry{mode: filter.ModeFolder, id: tree}
	for _, name := range parts {
		if at.mode&filter.ModeKind != filter.ModeFolder || at.id.IsZero() {
			return entry{}, nil
		}
		data, err := o.read(ctx, plumbing.TreeObject, at.id, maxTreeBytes)
		if err != nil {
			return entry{}, err
		}
		if at, err = findEntry(at.id, data, name); err != nil {
			return entry{}, err
		}
	}
	return at, nil
}

// findEntry looks for one name without building the list: histories are long.
func findEntry(id plumbing.Hash, data []byte, name string) (entry, error) {
	for len(data) > 0 {
		e, rest, err := cutEntry(data)
		if err != nil {
			return entry{}, fault.New(fault.ErrInvalid, "tree %s is malformed: %v", id, err)
		}
		if string(e.name) == name {
			return entry{name: name, mode: e.mode, id: e.id}, nil
		}
		data = rest
	}
	return entry{}, nil
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
