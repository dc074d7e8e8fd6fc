package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Link is the only way from a controller to an API server. While it is cut, connections to it are refused.
type Link struct {
	t       *testing.T
	address string // of its own
	target  string

	mu          sync.Mutex
	listener    net.Listener // nil while it is cut
	connections []net.Conn
}

// NewLink returns a link to an address. It is cut when the test ends.
func NewLink(t *testing.T, target string) *Link {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{t: t, address: FreeAddress(t), target: u.Host}
	l.Restore()
	t.Cleanup(l.Cut)
	return l
}

// URL is the address for the controller. The API server's certificate is valid for it, as for every port of
// this host.
func (l *Link) URL() string { return "https://" + l.address }

// Restore lets connections pass.
func (l *Link) Restore() {
	l.t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(l.t.Context()), "tcp", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // it was cut
			}
			go l.relay(listener, from)
		}
	}()
}

// Cut ends all connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	for _, c := range l.connections {
		_ = c.Close()
	}
	l.listener, l.connections = nil, nil
}

func (l *Link) relay(by net.Listener, from net.Conn) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(context.WithoutCancel(l.t.Context()), "tcp", l.target)
	if err != nil {
		return // the controller sees that the connection ends
	}
	defer to.Close()
	if err := l.keep(by, from, to); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(to, from) // until either side or Cut ends it
		_ = to.Close()
		close(done)
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
}

// keep remembers the two connections for Cut.
func (l *Link) keep(by net.Listener, both ...net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != by {
		return errors.New("the link was cut")
	}
	l.connections = append(l.connections, both...)
	return nil
}
