package source

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// The phases of a fetch, as errors name them.
const (
	phaseDial = "dial"
	phaseTLS  = "TLS"
	phaseRefs = "refs"
	phasePack = "pack"
)

// phases bounds each phase of a fetch by the same time, from its beginning to its
// end: a server that sends a byte a second is as slow as one that sends none.
type phases struct {
	timeout time.Duration
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	request string // refs or pack: what the present request is for
	timer   *time.Timer
}

// slowError: a phase took too long.
type slowError struct {
	phase   string
	timeout time.Duration
}

func (e *slowError) Error() string {
	return "no end of phase " + e.phase + " after " + e.timeout.String()
}

// begin starts a request. Its context ends with a *slowError as the cause when one
// of its phases is too slow. end must be called.
func beginPhase(ctx context.Context, request string, timeout time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &phases{timeout: timeout, cancel: cancel, request: request}
	p.enter(phaseDial)
	trace := &httptrace.ClientTrace{
		GetConn:           func(string) { p.enter(phaseDial) },
		TLSHandshakeStart: func() { p.enter(phaseTLS) },
		GotConn:           func(httptrace.GotConnInfo) { p.enter(request) },
	}
	return httptrace.WithClientTrace(ctx, trace), func() {
		p.mu.Lock()
		p.timer.Stop()
		p.mu.Unlock()
		cancel(nil)
	}
}

func (p *phases) enter(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(p.timeout, func() { p.cancel(&slowError{phase: phase, timeout: p.timeout}) })
}
