package bootnodes_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// front is before the API server: what machines connect to. It hands on bytes, so that
// a kubelet's certificate reaches the API server, unless something is to go wrong for a
// machine: then it answers in its place.
type front struct {
	address     string
	to          *url.URL
	certificate tls.Certificate // the API server's own
	stranger    tls.Certificate // signed by a CA that no client trusts
	ca          []byte          // of the cluster
	troubles    troubles
}

// trouble is what goes wrong for one machine.
type trouble struct {
	nodefixture.Faults
	mu sync.Mutex
	// away refuses every connection; strange answers with an untrusted certificate.
	away, strange bool
	conns         []net.Conn
}

// troubles are those of machines, by their address.
type troubles struct {
	mu  sync.Mutex
	all map[string]*trouble
}

// of is the trouble of the machine with an address, with or without a port.
func (t *troubles) of(address string) *trouble {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]*trouble{}
	}
	if t.all[address] == nil {
		t.all[address] = &trouble{}
	}
	return t.all[address]
}

// leave makes the server refuse connections, and closes the open ones.
func (t *trouble) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = true
	for _, conn := range t.conns {
		conn.Close()
	}
	t.conns = nil
}

// disguise makes the server answer with an untrusted certificate from now on.
func (t *trouble) disguise() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strange = true
}

// end lets all be well again.
func (t *trouble) end() {
	t.mu.Lock()
	t.away, t.strange = false, false
	t.mu.Unlock()
	t.Clear()
}

// begin notes a connection, and says what is wrong with it.
func (t *trouble) begin(conn net.Conn) (away, strange bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.away {
		t.conns = append(t.conns, conn)
	}
	return t.away, t.strange
}

func (t *trouble) done(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = slices.DeleteFunc(t.conns, func(c net.Conn) bool { return c == conn })
}

// open lets machines connect.
func (f *front) open() error {
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the tests end
			}
			go f.serve(conn)
		}
	}()
	return nil
}

func (f *front) serve(conn net.Conn) {
	defer conn.Close()
	trouble := f.troubles.of(conn.RemoteAddr().String())
	away, strange := trouble.begin(conn)
	defer trouble.done(conn)
	switch {
	case away:
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as from a closed port
		}
		return
	case strange:
		f.answer(conn, f.stranger, &trouble.Faults)
		return
	case trouble.Left() > 0:
		f.answer(conn, f.certificate, &trouble.Faults)
		return
	}
	api, err := net.Dial("tcp", f.to.Host)
	if err != nil {
		return // no answer, like an unreachable server
	}
	defer api.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{api, conn}, {conn, api}} {
		go func() { _, _ = io.Copy(way[0], way[1]); done <- struct{}{} }()
	}
	<-done
}

// answer reads the requests of a connection, and forwards those that are not to fail with their
// headers.
func (f *front) answer(conn net.Conn, certificate tls.Certificate, faults *nodefixture.Faults) {
	proxy := httputil.NewSingleHostReverseProxy(f.to)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.ca)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	one := &oneConn{conn: tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}}), done: make(chan struct{})}
	var hijacked atomic.Bool
	server := &http.Server{ErrorLog: proxy.ErrorLog, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if wrong := faults.Take(r); wrong != nil {
			healthy := httptest.NewRecorder()
			proxy.ServeHTTP(healthy, r)
			wrong(w, r, healthy.Body.Bytes())
			if hijacked.Load() {
				one.end()
			}
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateHijacked:
			hijacked.Store(true)
		case http.StateClosed:
			one.end()
		}
	}
	_ = server.Serve(one) // it ends with the connection
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn  net.Conn
	given bool
	once  sync.Once
	done  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.conn, nil
	}
	<-l.done
	return nil, io.EOF
}

func (l *oneConn) end() { l.once.Do(func() { close(l.done) }) }

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
