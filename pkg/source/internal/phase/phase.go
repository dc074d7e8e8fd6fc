package phase

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// The phases of a fetch, as errors name them.
const (
	Dial      = "dial"
	Proxy     = "proxy" // the request to a proxy, with its TLS
	TLS       = "TLS"
	Handshake = "handshake" // of ssh, including authentication
	Token     = "token"     // of a GitHub App
	Refs      = "refs"
)

// phases limits each phase of a fetch to the same time, from beginning to end: a server
// that sends a byte per second is as slow as one that sends none.
type phases struct {
	timeout time.Duration
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	request string // token, refs or pack: the purpose of the current request
	phase   string
	timer   *time.Timer
}

// SlowError reports that a phase exceeded its timeout.
type SlowError struct {
	Phase   string
	Timeout time.Duration
}

func (e *SlowError) Error() string {
	return "no end of phase " + e.Phase + " after " + e.Timeout.String()
}

// Begin starts a request. Its context ends with a *SlowError as the cause if one of
// its phases is too slow. The caller must call end.
func Begin(ctx context.Context, request string, timeout time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &phases{timeout: timeout, cancel: cancel, request: request}
	p.enterWithTimeout(Dial)
	trace := &httptrace.ClientTrace{
		GetConn:           func(string) { p.enterWithTimeout(Dial) },
		TLSHandshakeStart: func() { p.enterWithTimeout(TLS) },
		GotConn:           func(httptrace.GotConnInfo) { p.enterWithTimeout(request) },
	}
	ctx = context.WithValue(ctx, phasesKey{}, p)
	return httptrace.WithClientTrace(ctx, trace), func() {
		// A phase that begins now would replace the timer.
		p.mu.Lock()
		p.timer.Stop()
		p.mu.Unlock()
		cancel(nil)
	}
}

type phasesKey struct{}

// Enter begins a phase of the request that a context belongs to.
func Enter(ctx context.Context, phase string) {
	if p, ok := ctx.Value(phasesKey{}).(*phases); ok {
		p.enterWithTimeout(phase)
	}
}

// Current returns the phase of the request that a context belongs to.
func Current(ctx context.Context, otherwise string) string {
	p, ok := ctx.Value(phasesKey{}).(*phases)
	if !ok {
		return otherwise
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase
}

func (p *phases) enterWithTimeout(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.phase = phase
	p.timer = time.AfterFunc(p.timeout, func() { p.cancel(&SlowError{Phase: phase, Timeout: p.timeout}) })
}
