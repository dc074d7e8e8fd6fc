// Package listen bounds what strangers who reach a port of the controller can use up, so
// that one address that is slow does not keep others out.
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
	// maxConnections are open at a time; the next one waits to be accepted.
	maxConnections = 512
	// maxPerPeer of them may come from one address; the next one from there is closed. An
	// API server has one for each review that is under way.
	maxPerPeer = 64
	// maxSmall is the size of a body that is read without a slot, in bytes: that of nearly
	// every push and review. All connections together may fill 64 MiB with them.
	maxSmall = 128 << 10
)

// Listen opens a TCP port whose connections are bounded, in all and for each address that
// connects.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &perPeer{Listener: netutil.LimitListener(l, maxConnections), open: map[netip.Addr]int{}}, nil
}

type perPeer struct {
	net.Listener

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept implements net.Listener.
func (l *perPeer) Accept() (net.Conn, error) {
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
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.leave(peer) })}, nil
		}
		c.Close()
	}
}

func (l *perPeer) leave(peer netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[peer]--; l.open[peer] == 0 {
		delete(l.open, peer)
	}
}

// peerOf is who connects: of IPv6 the /64, which one machine has whole.
func peerOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{} // none of TCP
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr
}

type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// Bodies reads bodies of requests. Small ones are read at once, however many arrive; of
// those that are larger a few at a time, so that they use no more memory than that.
type Bodies struct{ large *semaphore.Weighted }

// NewBodies lets so many large bodies be read at a time.
func NewBodies(large int64) *Bodies { return &Bodies{large: semaphore.NewWeighted(large)} }

// Read reads a body of at most limit bytes. The time it takes is the server's to bound. The
// error is a *http.MaxBytesError for a larger body, and the context's if it ends first.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, limit)
	small, err := io.ReadAll(io.LimitReader(body, maxSmall))
	if err != nil {
		return nil, fmt.Errorf("reading a request: %w", err)
	}
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
