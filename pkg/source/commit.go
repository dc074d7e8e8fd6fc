package source

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// commit is what a walk needs of a commit.
type commit struct {
	tree        plumbing.Hash
	parents     []plumbing.Hash
	committedAt time.Time
}

// commit returns a commit, remembering it for the next walk.
func (o *objects) commit(ctx context.Context, id plumbing.Hash) (commit, error) {
	o.mu.Lock()
	c, ok := o.commits[id]
	o.mu.Unlock()
	if ok {
		return c, nil
	}
	data, err := o.read(ctx, plumbing.CommitObject, id, maxCommitBytes)
	if err != nil {
		return commit{}, err
	}
	header, err := parseCommit(id, data)
	if err != nil {
		return commit{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.commits) >= maxCommits { // many of them may be of histories that were rewritten
		o.commits = map[plumbing.Hash]commit{}
	}
	o.commits[id] = header.commit
	return header.commit, nil
}

// checkCommits bounds what one walk sees.
func checkCommits(seen map[plumbing.Hash]bool) error {
	if len(seen) > maxCommits {
		return fault.New(fault.ErrInvalid, "the history has more than %d commits", maxCommits)
	}
	return nil
}

type commitHeader struct {
	commit
	author string
}

// parseCommit reads the header of a commit as Git does: the tree, then the
// parents, then author and committer; anything else there is passed over.
func parseCommit(id plumbing.Hash, data []byte) (commitHeader, error) {
	var h commitHeader
	head, _, _ := bytes.Cut(data, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	tree, ok := strings.CutPrefix(lines[0], "tree ")
	if !ok || !isObjectID(tree) {
		return h, fault.New(fault.ErrInvalid, "commit %s is malformed: it names no tree", id)
	}
	h.tree = plumbing.NewHash(tree)
	lines = lines[1:]
	for len(lines) > 0 {
		parent, ok := strings.CutPrefix(lines[0], "parent ")
		if !ok {
			break
		}
		if !isObjectID(parent) {
			return h, fault.New(fault.ErrInvalid, "commit %s is malformed: a parent is no object id", id)
		}
		h.parents = append(h.parents, plumbing.NewHash(parent))
		lines = lines[1:]
	}
	for _, line := range lines {
		if author, ok := strings.CutPrefix(line, "author "); ok && h.author == "" {
			h.author = author
		}
		if committer, ok := strings.CutPrefix(line, "committer "); ok && h.committedAt.IsZero() {
			_, _, h.committedAt = parseIdentity(committer)
		}
	}
	return h, nil
}

// parseIdentity takes "Name <email> 1700000000 +0100" apart. Parts that are
// missing stay empty, as in `git log`; the zone is dropped.
func parseIdentity(s string) (name, email string, at time.Time) {
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
