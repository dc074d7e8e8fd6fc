// Package listen bounds the resources that clients of a controller port can use, so that
// one slow address does not block others.
//
// Start with Listen.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"
)

const (
	// maxConnections bounds open connections; further ones wait to be accepted.
	maxConnections = 512
	// maxPerPeer bounds the connections of one address; further ones are closed. An API server
	// has one for each review in progress.
	maxPerPeer = 64
	// maxSmall is the size of a body that is read without a slot, in bytes: that of nearly
	// every push and review. All connections together use at most 64 MiB for such bodies.
	maxSmall = 128 << 10
)

// Listen opens a TCP port with a bounded number of connections, in total and for each
// client address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &peerLimitListener{Listener: netutil.LimitListener(l, maxConnections), open: map[netip.Addr]int{}}, nil
}

// peerLimitListener limits the connections of each client address.
type peerLimitListener struct {
	net.Listener

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept implements net.Listener.
func (l *peerLimitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerOf(c)
		l.mu.Lock()
		free := l.open[peer] < maxPerPeer
		if free {
			l.open[peer]++
		}
		l.mu.Unlock()
		if free {
			// Close can be called several times.
			return &counted{Conn: c, release: sync.OnceFunc(func() { l.releaseConnection(peer) })}, nil
		}
		c.Close()
	}
}

// releaseConnection counts a closed connection of a client address.
func (l *peerLimitListener) releaseConnection(peer netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[peer]--; l.open[peer] == 0 {
		delete(l.open, peer)
	}
}

// peerOf returns the address of the client: for IPv6 the /64, which one machine can own
// completely.
func peerOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{} // not TCP
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr
}

type counted struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// LargeBodyLimiter reads bodies of requests. Small ones are read immediately; the number of larger
// ones that are read concurrently is bounded, and with it the memory.
type LargeBodyLimiter struct{ large *semaphore.Weighted }

// NewLargeBodyLimiter bounds the number of large bodies that are read concurrently.
func NewLargeBodyLimiter(large int64) *LargeBodyLimiter {
	return &LargeBodyLimiter{large: semaphore.NewWeighted(large)}
}

// Read reads a body of at most limit bytes. The server must bound the time. The error is a
// *http.MaxBytesError for a larger body, and the context's if it ends first.
func (b *LargeBodyLimiter) Read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, limit)
	small, err := io.ReadAll(io.LimitReader(body, maxSmall))
	if err != nil {
		return nil, fmt.Errorf("reading a request: %w", err)
	}
	// Small bodies need no turn, so that slow senders of large ones do not delay them.
	if len(small) < maxSmall {
		return small, nil
	}
	if err := b.large.Acquire(r.Context(), 1); err != nil {
		return nil, fmt.Errorf("waiting to read a large request: %w", err)
	}
	defer b.large.Release(1)
	rest, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("reading a request: %w", err)
	}
	return append(small, rest...), nil
}

// IsTooLarge reports whether a body was larger than its limit.
func IsTooLarge(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large)
}
