package transport

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// The phases of a fetch, as errors name them.
const (
	phaseDial      = "dial"
	phaseProxy     = "proxy" // what a proxy is asked, and TLS with it
	phaseTLS       = "TLS"
	phaseHandshake = "handshake" // of ssh, with authentication
	phaseToken     = "token"     // of a GitHub App
	phaseRefs      = "refs"
)

// phases bounds each phase of a fetch by the same time, from its beginning to its
// end: a server that sends a byte a second is as slow as one that sends none.
type phases struct {
	timeout time.Duration
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	request string // token, refs or pack: what the present request is for
	phase   string
	timer   *time.Timer
}

// slowError: a phase took too long.
type SlowError struct {
	Phase   string
	Timeout time.Duration
}

func (e *SlowError) Error() string {
	return "no end of phase " + e.Phase + " after " + e.Timeout.String()
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
	ctx = context.WithValue(ctx, phasesKey{}, p)
	return httptrace.WithClientTrace(ctx, trace), func() {
		p.mu.Lock()
		p.timer.Stop()
		p.mu.Unlock()
		cancel(nil)
	}
}

type phasesKey struct{}

// enterPhase begins a phase of the request that a context is for.
func enterPhase(ctx context.Context, phase string) {
	if p, ok := ctx.Value(phasesKey{}).(*phases); ok {
		p.enter(phase)
	}
}

// currentPhase is the phase that the request of a context is in.
func currentPhase(ctx context.Context, otherwise string) string {
	p, ok := ctx.Value(phasesKey{}).(*phases)
	if !ok {
		return otherwise
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase
}

func (p *phases) enter(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.phase = phase
	p.timer = time.AfterFunc(p.timeout, func() { p.cancel(&SlowError{Phase: phase, Timeout: p.timeout}) })
}
