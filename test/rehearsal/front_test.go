package rehearsal_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// front is before the API server: what machines connect to. It hands on bytes, so that
// a kubelet's certificate reaches the API server, unless something is to go wrong: then
// it answers in its place.
type front struct {
	address     string
	to          *url.URL
	certificate tls.Certificate // the API server's own
	ca          []byte          // of the cluster

	mu     sync.Mutex
	hears  net.Listener
	conns  []net.Conn
	faults []*fault
}

// fault is what goes wrong with a server's answers.
type fault struct {
	// on is how the URL ends, from the host on.
	on string
	// times it happens; then all is well.
	times int
	// answer is given in place of the healthy one.
	answer http.HandlerFunc
}

// unavailableAnswer is what a proxy says before servers that do not answer.
func unavailableAnswer(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
}

// take returns what goes wrong with a request, if anything, and counts it.
func take(faults []*fault, r *http.Request) *fault {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	for _, f := range faults {
		if f.times > 0 && strings.HasSuffix(host+r.URL.Path, f.on) {
			f.times--
			return f
		}
	}
	return nil
}

// left counts the faults that have not happened.
func left(faults []*fault) (left int) {
	for _, f := range faults {
		left += f.times
	}
	return left
}

// open lets machines connect.
func (f *front) open() error {
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.hears = l
	f.mu.Unlock()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			go f.serve(conn)
		}
	}()
	return nil
}

// away ends all connections and lets nobody connect, until open.
func (f *front) away() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hears.Close()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

// breaks lets something go wrong from now on.
func (f *front) breaks(what fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &what)
}

// unbroken counts the faults that have not happened.
func (f *front) unbroken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return left(f.faults)
}

func (f *front) serve(conn net.Conn) {
	defer conn.Close()
	f.mu.Lock()
	f.conns = append(f.conns, conn)
	answers := left(f.faults) > 0
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns = slices.DeleteFunc(f.conns, func(c net.Conn) bool { return c == conn })
	}()
	if answers {
		f.answer(conn)
		return
	}
	api, err := net.Dial("tcp", f.to.Host)
	if err != nil {
		return // as if it were away
	}
	defer api.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{api, conn}, {conn, api}} {
		go func() { _, _ = io.Copy(way[0], way[1]); done <- struct{}{} }()
	}
	<-done
}

// answer reads the requests of a connection. Those that are not to fail are handed on,
// with what stands in their headers.
func (f *front) answer(conn net.Conn) {
	proxy := httputil.NewSingleHostReverseProxy(f.to)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.ca)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server := &http.Server{ErrorLog: proxy.ErrorLog, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		broken := take(f.faults, r)
		f.mu.Unlock()
		w.Header().Set("Connection", "close")
		if broken != nil {
			broken.answer(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	one := &oneConn{conn: tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{f.certificate}}), done: make(chan struct{})}
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			one.once.Do(func() { close(one.done) })
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

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
