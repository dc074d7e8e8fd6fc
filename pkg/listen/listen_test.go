package listen

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/slow"
)

// One address that does not close its connections does not block others, and can connect
// again once it closes them (security.md 41).
func TestListen(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bodies := NewLargeBodyLimiter(1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // the test needs slow peers
		if _, err := bodies.Read(w, r, 1<<20); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	t.Run("held", func(t *testing.T) {
		slow.Post(t, 2*maxConnections, l.Addr().String(), nil, "/")
		res, err := slow.Client(nil).Post("http://"+l.Addr().String(), "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("answered %d", res.StatusCode)
		}
	})
	for {
		res, err := http.Post("http://"+l.Addr().String(), "text/plain", strings.NewReader("x")) // the test's deadline is sufficient
		if err == nil {
			res.Body.Close()
			return
		}
	}
}

// Every address of one machine counts as one.
func TestPeer(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1": "fe80::",
	} {
		if got := peerOf(from{at: net.TCPAddr{IP: net.ParseIP(address), Port: 1}}).String(); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

type from struct {
	net.Conn
	at net.TCPAddr
}

func (f from) RemoteAddr() net.Addr { return &f.at }

// The number of large bodies that are read concurrently is bounded, small ones are read
// regardless; none is truncated.
func TestBodies(t *testing.T) {
	b := NewLargeBodyLimiter(1)
	read := func(size int, limit int64) ([]byte, error) {
		return b.Read(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(bytes.Repeat([]byte("x"), size))), limit)
	}
	for _, size := range []int{0, 1, maxSmall - 1, maxSmall, maxSmall + 1, 1 << 20} {
		if got, err := read(size, 1<<20); err != nil || len(got) != size {
			t.Errorf("%d bytes of %d are read: %v", len(got), size, err)
		}
	}
	if _, err := read(1<<20+1, 1<<20); !IsTooLarge(err) {
		t.Errorf("more than the limit: %v", err)
	}
	if !b.large.TryAcquire(1) {
		t.Fatal("a slot is taken")
	}
	if got, err := read(maxSmall-1, 1<<20); err != nil || len(got) != maxSmall-1 {
		t.Errorf("a small body waits for a large one: %v", err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, maxSmall)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Read(httptest.NewRecorder(), r.WithContext(ctx), 1<<20); !errors.Is(err, ctx.Err()) {
		t.Errorf("a large one does not wait: %v", err)
	}
}
