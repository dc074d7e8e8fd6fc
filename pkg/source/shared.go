package source

import (
	"errors"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

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
