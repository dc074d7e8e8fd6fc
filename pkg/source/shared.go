package source

import (
	"errors"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// reply is what a server said last, for every fetch of the mirror that need not
// ask itself: it depends on nothing else than the mirror does.
type reply struct {
	refs  *packp.AdvRefs
	asked time.Time // when the request began: what was pushed later is not in it
	err   error     // or why there was no answer
	ended time.Time // when that was known
}

// serves tells whether a fetch that began at a time may take this answer. One that
// waited while the server was asked always may.
func (a reply) serves(r Remote, began time.Time) bool {
	if a.err != nil {
		return a.ended.After(r.Known) && !a.ended.Before(began.Add(-r.MaxFailureAge))
	}
	return a.refs != nil && a.asked.After(r.Known) && !a.asked.Before(began.Add(-r.MaxAge))
}

// note keeps an answer for the fetches that come next.
func (m *mirror) note(a reply) {
	if a.err != nil && !errors.Is(a.err, ErrUnreachable) {
		return // it may be this fetch's own fault
	}
	if a.refs != nil && len(a.refs.References) > maxKeptRefs {
		a = reply{}
	}
	m.last = a
}

// errAskAgain: an answer that is kept does not do for this fetch.
var errAskAgain = errors.New("the server has to be asked")
