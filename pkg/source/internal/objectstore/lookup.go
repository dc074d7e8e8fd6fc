package objectstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/packindex"
)

// maxTagDepth limits the number of tags that point to each other.
const maxTagDepth = 16

// Peel returns the commit that an object is, or that a tag points to.
func (o *Objects) Peel(ctx context.Context, id plumbing.Hash) (plumbing.Hash, error) {
	for range maxTagDepth {
		if err := ctx.Err(); err != nil {
			return id, err
		}
		kind, data, err := o.load(id, MaxCommitBytes)
		if err != nil {
			return id, err
		}
		if err := checkObject(kind, data, id); err != nil {
			return id, err
		}
		switch kind {
		case plumbing.CommitObject:
			return id, nil
		case plumbing.TagObject:
			line, _, _ := bytes.Cut(data, []byte("\n"))
			to, ok := strings.CutPrefix(string(line), "object ")
			if !ok || !objectid.IsValid(to) {
				return id, fault.New(fault.ErrInvalid, "tag %s is malformed: it has no object", id)
			}
			id = plumbing.NewHash(to)
		default:
			return id, fault.New(fault.ErrInvalid, "object %s is a %s, but must be a commit", id, kind)
		}
	}
	return id, fault.New(fault.ErrInvalid, "tag %s is a tag of a tag, more than %d deep", id, maxTagDepth)
}

// ExpandCommitID finds the only commit whose id begins with some hexadecimal digits. It returns the
// zero hash and no error if there is none. Like Git, it ignores other objects.
func (o *Objects) ExpandCommitID(ctx context.Context, digits string) (plumbing.Hash, error) {
	ids, err := o.beginningWith(digits)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	var found []plumbing.Hash
	for _, id := range ids {
		switch _, err := o.Commit(ctx, id); {
		case err == nil:
			found = append(found, id)
		// Objects of other kinds are not candidates; only damage ends the search.
		case fault.IsDamage(err) || ctx.Err() != nil:
			return plumbing.ZeroHash, err
		}
	}
	switch len(found) {
	case 0:
		return plumbing.ZeroHash, nil
	case 1:
		return found[0], nil
	}
	return plumbing.ZeroHash, fault.New(fault.ErrInvalid, "%d commits begin with %s: write more digits", len(found), digits)
}

// beginningWith lists the objects whose ids begin with some digits.
func (o *Objects) beginningWith(digits string) (ids []plumbing.Hash, err error) {
	defer fault.RecoverAsDamage(&err)
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[plumbing.Hash]bool{}
	for _, p := range o.packs {
		entries, err := p.index.Entries()
		if err != nil {
			return nil, fmt.Errorf("%w: reading the index of %s: %w", fault.ErrDamaged, p.name, err)
		}
		for e, err := entries.Next(); err == nil; e, err = entries.Next() {
			if strings.HasPrefix(e.Hash.String(), digits) {
				seen[e.Hash] = true
			}
		}
		entries.Close()
	}
	if o.dir != nil {
		names, err := o.looseNames(digits[:2])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasPrefix(name, digits) {
				seen[plumbing.NewHash(name)] = true
			}
		}
	}
	for id := range seen {
		ids = append(ids, id)
	}
	plumbing.HashesSort(ids)
	return ids, nil
}

// looseNames lists the ids of loose objects.
func (o *Objects) looseNames(folder string) ([]string, error) {
	dir, err := o.dir.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(packindex.MaxObjects)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	var ids []string
	for _, name := range names {
		if id := folder + name; len(id) == 40 {
			if _, err := hex.DecodeString(id); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}
