package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/sync/semaphore"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/mirror"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
)

// sharedMirror is a mirror on disk, with the state that its fetches share.
type sharedMirror struct {
	store    *mirror.Mirror
	lines    HistoryCache
	verified verification.Cache
	idle     *semaphore.Weighted // one fetch at a time

	// Used only while holding idle.
	last   cachedRefs
	failed cachedError
	until  time.Time // until when Sweep must not delete it; zero if no fetch set Retention
}

func newSharedMirror(dir string) *sharedMirror {
	return &sharedMirror{store: mirror.New(dir), idle: semaphore.NewWeighted(1)}
}

// extendRetention records until when the mirror must be stored, for a fetch of t.
func (m *sharedMirror) extendRetention(t target) {
	if until := t.began.Add(t.Retention); t.Retention > 0 && until.After(m.until) {
		m.until = until
	}
}

// deleteIfExpired deletes the mirror if its time is over and it is not being fetched.
func (m *sharedMirror) deleteIfExpired(unused time.Duration) error {
	if !m.idle.TryAcquire(1) {
		return nil
	}
	defer m.idle.Release(1)
	if !m.until.IsZero() {
		if time.Now().Before(m.until) {
			return nil
		}
	} else if used, err := m.store.UsedAt(); err != nil || time.Since(used) < unused {
		return nil
	}
	m.clearCaches()
	return m.store.Discard()
}

// clearCaches clears the caches in memory.
func (m *sharedMirror) clearCaches() {
	m.last, m.failed = cachedRefs{}, cachedError{}
	m.lines.Forget()
}

// snapshot reads the files and the history at a commit.
func (m *sharedMirror) snapshot(ctx context.Context, t target, at revision.Choice) (*Snapshot, error) {
	objects, head := m.store.CurrentObjects(), at.Head
	if err := at.CheckTagCommit(ctx, objects); err != nil {
		return nil, err
	}
	c, err := objects.Commit(ctx, head)
	if err != nil {
		return nil, err
	}
	files, rejected, err := objects.Files(ctx, c.Tree, t.scope())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", at.Revision(), err)
	}
	steps, err := m.lines.FirstParentHistory(ctx, objects, t.want.HistoryCacheKey(), head, t.scope())
	if err != nil {
		return nil, fmt.Errorf("reading the history of %s: %w", at.Revision(), err)
	}
	return &Snapshot{
		Revision:   at.Revision(),
		Reference:  at.Reference,
		Repository: t.Repository,
		Head:       Commit(head.String()),
		Files:      files,
		Rejected:   rejected,
		Line:       steps,
		objects:    m.store,
		verified:   &m.verified,
		scope:      t.scope(),
		tag:        at.Tag,
	}, nil
}

// cachedRefs are the last references that a server sent. All fetches of the mirror can use
// them, because they depend on the URL and key of the mirror only.
type cachedRefs struct {
	refs        *packp.AdvRefs
	requestedAt time.Time // when the request began: later pushes are missing
}

// serves reports whether a fetch can use these references. A fetch that waited during the
// request always can.
func (a cachedRefs) serves(t target) bool {
	return a.refs != nil && a.requestedAt.After(t.LastFetched) && !a.requestedAt.Before(t.began.Add(-t.MaxAge))
}

// cachedError is the last error of a request, for the same fetches.
type cachedError struct {
	err     error
	ended   time.Time     // when the request failed
	timeout time.Duration // of the fetch: one with a longer timeout could succeed
	head    plumbing.Hash // the commit that the server did not send; zero if listing references failed
}

// appliesTo reports whether a fetch can use this error instead of sending the same request.
func (o cachedError) appliesTo(t target, head plumbing.Hash) bool {
	return o.err != nil && o.head == head && t.Timeout <= o.timeout &&
		o.ended.After(t.LastFetched) && !o.ended.Before(t.began.Add(-t.MaxFailureAge))
}

// cacheRefs caches references for later fetches.
func (m *sharedMirror) cacheRefs(a cachedRefs) {
	m.last = a
	if len(a.refs.References) > maxCachedRefs {
		m.last = cachedRefs{}
	}
	if m.failed.head.IsZero() {
		m.failed = cachedError{} // the server can be reached again
	}
}

// cacheUnreachableError caches an error for later fetches, unless it can be specific to this fetch.
func (m *sharedMirror) cacheUnreachableError(t target, head plumbing.Hash, err error) {
	if !errors.Is(err, fault.ErrUnreachable) {
		return
	}
	m.failed = cachedError{err: err, ended: time.Now(), timeout: t.Timeout, head: head}
	if head.IsZero() {
		m.last = cachedRefs{}
	}
}

// errStaleRefs is returned if the cached references are not enough for a fetch.
var errStaleRefs = errors.New("a request to the server is needed")
