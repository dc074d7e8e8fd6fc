package verification

import (
	"context"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// Cache stores results of verifying a history for the next verification.
type Cache struct {
	timing sync.Mutex
	newest map[plumbing.Hash]plumbing.Hash // see newestOfFirstParents

	walking  sync.Mutex
	changers history.Recent[[]changer] // see verification.changers
}

// newestOfFirstParents returns the commit with the latest claimed time before a commit on its
// first-parent history; zero if there is none. Results are cached, so that one walk
// serves all commits of a history.
func (c *Cache) newestOfFirstParents(ctx context.Context, o *objectstore.Objects, id plumbing.Hash) (plumbing.Hash, error) {
	c.timing.Lock()
	defer c.timing.Unlock()
	if c.newest == nil || len(c.newest) > objectstore.MaxCommits {
		c.newest = map[plumbing.Hash]plumbing.Hash{}
	}
	line, _, err := history.FirstParents(ctx, o, id, func(at plumbing.Hash) bool {
		_, known := c.newest[at]
		return known
	})
	if err != nil {
		return plumbing.ZeroHash, err
	}
	// The list begins with the oldest commit, so the result of each parent is known.
	for _, at := range line {
		made, err := o.Commit(ctx, at)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if len(made.Parents) == 0 {
			c.newest[at] = plumbing.ZeroHash
			continue
		}
		if c.newest[at], err = laterCommit(ctx, o, c.newest[made.Parents[0]], made.Parents[0]); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return c.newest[id], nil
}

// laterCommit returns the commit with the later claimed time. The first can be zero.
func laterCommit(ctx context.Context, o *objectstore.Objects, a, b plumbing.Hash) (plumbing.Hash, error) {
	if a.IsZero() {
		return b, nil
	}
	first, err := o.Commit(ctx, a)
	if err != nil {
		return a, err
	}
	second, err := o.Commit(ctx, b)
	if err != nil || !second.CommittedAt.After(first.CommittedAt) {
		return a, err
	}
	return b, nil
}
