package history

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// LastChange finds the commit that set a path to its content at a commit, with Git's
// history simplification: side branches that did not change the path are not entered, and
// of a merge that took one side completely only that side is.
func LastChange(ctx context.Context, o *objectstore.Objects, id plumbing.Hash, parts []string) (Author, error) {
	c, err := o.Commit(ctx, id)
	if fault.IsMissing(err) {
		return Author{}, fault.New(fault.ErrNotFound, "the commit does not exist")
	}
	if err != nil {
		return Author{}, err
	}
	here, err := o.Find(ctx, c.Tree, parts)
	if err != nil {
		return Author{}, err
	}
	for range objectstore.MaxCommits {
		same, err := parentWithSameContent(ctx, o, c, here, parts)
		if err != nil {
			return Author{}, err
		}
		if !same.IsZero() {
			id = same
			if c, err = o.Commit(ctx, id); err != nil {
				return Author{}, err
			}
			continue
		}
		if len(c.Parents) == 0 && here.Mode == 0 {
			return Author{}, fault.New(fault.ErrNotFound, "no commit in its history has this path")
		}
		return authorOf(ctx, o, id)
	}
	return Author{}, fault.New(fault.ErrInvalid, "the history has more than %d commits", objectstore.MaxCommits)
}

// parentWithSameContent returns the first parent with the same content at the path, or zero.
func parentWithSameContent(ctx context.Context, o *objectstore.Objects, c objectstore.CommitInfo, here objectstore.Entry, parts []string) (plumbing.Hash, error) {
	for i, parent := range c.Parents {
		if slices.Contains(c.Parents[:i], parent) {
			continue
		}
		p, err := o.Commit(ctx, parent)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		parentEntry, err := o.Find(ctx, p.Tree, parts)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if parentEntry.Same(here) {
			return parent, nil
		}
	}
	return plumbing.ZeroHash, nil
}

// maxSubject bounds the part of a message that is read for its subject.
const maxSubject = 1000

// authorOf returns the author of a commit.
func authorOf(ctx context.Context, o *objectstore.Objects, id plumbing.Hash) (Author, error) {
	data, err := o.Read(ctx, plumbing.CommitObject, id, objectstore.MaxCommitBytes)
	if err != nil {
		return Author{}, err
	}
	header, err := objectstore.ParseCommit(id, data)
	if err != nil {
		return Author{}, err
	}
	name, email, at := objectstore.ParseIdentity(header.Author)
	return Author{Commit: Commit(id.String()), Name: name, Email: email, At: at, Subject: subjectOf(data)}, nil
}

// subjectOf returns the subject of a commit as Git's %s does: the first paragraph of its
// message on one line.
func subjectOf(commit []byte) string {
	_, message, _ := bytes.Cut(commit, []byte("\n\n"))
	message = bytes.TrimLeft(message, "\n")
	message = message[:min(len(message), maxSubject)]
	paragraph, _, _ := bytes.Cut(message, []byte("\n\n"))
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(paragraph), "\uFFFD")), " ")
}
