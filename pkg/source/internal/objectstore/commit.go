package objectstore

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// CommitInfo has the fields of a commit that a walk needs.
type CommitInfo struct {
	Tree        plumbing.Hash
	Parents     []plumbing.Hash
	CommittedAt time.Time
}

// Commit returns a commit and caches it for the next walk.
func (o *Objects) Commit(ctx context.Context, id plumbing.Hash) (CommitInfo, error) {
	o.mu.Lock()
	c, ok := o.commits[id]
	o.mu.Unlock()
	if ok {
		return c, nil
	}
	data, err := o.Read(ctx, plumbing.CommitObject, id, MaxCommitBytes)
	if err != nil {
		return CommitInfo{}, err
	}
	header, err := ParseCommit(id, data)
	if err != nil {
		return CommitInfo{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.commits) >= MaxCommits { // many of them can belong to rewritten histories
		o.commits = map[plumbing.Hash]CommitInfo{}
	}
	o.commits[id] = header.CommitInfo
	return header.CommitInfo, nil
}

// CheckCommitCount limits the number of commits in one walk.
func CheckCommitCount(seen map[plumbing.Hash]bool) error {
	if len(seen) > MaxCommits {
		return fault.New(fault.ErrInvalid, "the history has more than %d commits", MaxCommits)
	}
	return nil
}

type commitHeader struct {
	CommitInfo
	Author string
}

// ParseCommit parses the header of a commit as Git does: the tree, then the parents, then
// author and committer; other headers are ignored.
func ParseCommit(id plumbing.Hash, data []byte) (commitHeader, error) {
	var h commitHeader
	head, _, _ := bytes.Cut(data, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	tree, ok := strings.CutPrefix(lines[0], "tree ")
	if !ok || !objectid.IsValid(tree) {
		return h, fault.New(fault.ErrInvalid, "commit %s is malformed: it has no tree", id)
	}
	h.Tree = plumbing.NewHash(tree)
	lines = lines[1:]
	for len(lines) > 0 {
		parent, ok := strings.CutPrefix(lines[0], "parent ")
		if !ok {
			break
		}
		if !objectid.IsValid(parent) {
			return h, fault.New(fault.ErrInvalid, "commit %s is malformed: a parent is not an object id", id)
		}
		h.Parents = append(h.Parents, plumbing.NewHash(parent))
		lines = lines[1:]
	}
	for _, line := range lines {
		if author, ok := strings.CutPrefix(line, "author "); ok && h.Author == "" {
			h.Author = author
		}
		if committer, ok := strings.CutPrefix(line, "committer "); ok && h.CommittedAt.IsZero() {
			_, _, h.CommittedAt = ParseIdentity(committer)
		}
	}
	return h, nil
}

// ParseIdentity parses "Name <email> 1700000000 +0100". Missing parts stay empty, as in
// `git log`; the zone is dropped.
func ParseIdentity(s string) (name, email string, at time.Time) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	name, rest, _ := strings.Cut(s, "<")
	end := strings.LastIndexByte(rest, '>')
	if end < 0 {
		return strings.TrimSpace(name), "", time.Time{}
	}
	email = strings.TrimSpace(rest[:end])
	if fields := strings.Fields(rest[end+1:]); len(fields) > 0 {
		if seconds, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			at = time.Unix(seconds, 0).UTC()
		}
	}
	return strings.TrimSpace(name), email, at
}
