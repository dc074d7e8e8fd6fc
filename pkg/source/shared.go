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
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
)

// mirror is a mirror on disk, and what its fetches share.
type mirror struct {
	store    *objectstore.Mirror
	lines    Lines
	verified verification.Cache
	idle     *semaphore.Weighted // one fetch at a time

	// Of the fetch under way only.
	last   reply
	failed outage
	until  time.Time // it is stored; zero if no fetch named a time
}

func newMirror(dir string) *mirror {
	return &mirror{store: objectstore.NewMirror(dir), idle: semaphore.NewWeighted(1)}
}

// keep notes how long the mirror is wanted.
func (m *mirror) keep(t target) {
	if until := t.began.Add(t.Keep); t.Keep > 0 && until.After(m.until) {
		m.until = until
	}
}

// sweep deletes the mirror if nobody wants it.
func (m *mirror) sweep(unused time.Duration) error {
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
	m.forget()
	return m.store.Discard()
}

// forget drops what is in memory.
func (m *mirror) forget() {
	m.last, m.failed = reply{}, outage{}
	m.lines.Forget()
}

// snapshot reads what is at a head.
func (m *mirror) snapshot(ctx context.Context, t target, at revision.Choice) (*Snapshot, error) {
	objects, head := m.store.Reader(), at.Head
	if err := at.CheckTag(ctx, objects); err != nil {
		return nil, err
	}
	c, err := objects.Commit(ctx, head)
	if err != nil {
		return nil, err
	}
	files, refused, err := objects.Files(ctx, c.Tree, t.scope())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", at.Revision(), err)
	}
	steps, err := m.lines.Of(ctx, objects, t.want.LineName(), head, t.scope())
	if err != nil {
		return nil, fmt.Errorf("reading the history of %s: %w", at.Revision(), err)
	}
	return &Snapshot{
		Revision:   at.Revision(),
		Reference:  at.Reference,
		Repository: t.Repository,
		Head:       Commit(head.String()),
		Files:      files,
		Refused:    refused,
		Line:       steps,
		objects:    m.store,
		verified:   &m.verified,
		scope:      t.scope(),
		tag:        at.Tag,
	}, nil
}

// reply is what a server said last, for every fetch of the mirror that need not
// ask itself: it depends on nothing else than the mirror does.
type reply struct {
	refs  *packp.AdvRefs
	asked time.Time // when the request began: what was pushed later is not in it
}

// serves tells whether a fetch may take this answer. One that waited while the server
// was asked always may.
func (a reply) serves(t target) bool {
	return a.refs != nil && a.asked.After(t.Known) && !a.asked.Before(t.began.Add(-t.MaxAge))
}

// outage is why there was no answer, for the same fetches.
type outage struct {
	err     error
	ended   time.Time     // when that was known
	timeout time.Duration // that of the fetch: what was too slow for it may do for another
	head    plumbing.Hash // what the server did not give out; zero: it did not even say what it has
}

// serves tells whether a fetch may take this for the answer to the same question.
func (o outage) serves(t target, head plumbing.Hash) bool {
	return o.err != nil && o.head == head && t.Timeout <= o.timeout &&
		o.ended.After(t.Known) && !o.ended.Before(t.began.Add(-t.MaxFailureAge))
}

// answered keeps an answer for the fetches that come next.
func (m *mirror) answered(a reply) {
	m.last = a
	if len(a.refs.References) > maxKeptRefs {
		m.last = reply{}
	}
	if m.failed.head.IsZero() {
		m.failed = outage{} // it is over
	}
}

// noAnswer keeps a failure for them, unless it may be the fetch's own fault.
func (m *mirror) noAnswer(t target, head plumbing.Hash, err error) {
	if !errors.Is(err, fault.ErrUnreachable) {
		return
	}
	m.failed = outage{err: err, ended: time.Now(), timeout: t.Timeout, head: head}
	if head.IsZero() {
		m.last = reply{}
	}
}

// errAskAgain: an answer that is kept does not do for this fetch.
var errAskAgain = errors.New("the server has to be asked")
