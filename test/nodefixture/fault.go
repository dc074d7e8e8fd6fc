package nodefixture

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
)

// FaultyHandler is a way in which a server goes wrong. Healthy is the body that it should give.
type FaultyHandler = func(w http.ResponseWriter, r *http.Request, healthy []byte)

// Says answers with a status and a body of its own.
func Says(status int, body string) FaultyHandler {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// Heads of answers, with a place for the length of a healthy one.
const (
	WithLength    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	WithoutLength = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Healthy: %d\r\nConnection: close\r\n\r\n"
)

// Raw writes bytes in place of a response and closes the connection cleanly, so that a response
// without a length appears complete.
func Raw(head string, body func(healthy []byte) []byte) FaultyHandler {
	return func(w http.ResponseWriter, _ *http.Request, healthy []byte) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, head, len(healthy))
		_, _ = conn.Write(body(healthy))
	}
}

// Half is the first half of a body.
func Half(healthy []byte) []byte { return healthy[:len(healthy)/2] }

// Fault is what goes wrong with a server's answers.
type Fault struct {
	// On is how the URL ends, from the host on.
	On string
	// Times it happens; then all is well.
	Times int
	// Handler is given in place of the healthy one.
	Handler FaultyHandler
}

// Faults are those of a server.
type Faults struct {
	mu   sync.Mutex
	list []*Fault
}

// Add lets something go wrong from now on.
func (f *Faults) Add(what Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &what)
}

// Clear ends everything that goes wrong.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

// Take returns what goes wrong with a request, nil if nothing, and counts it.
func (f *Faults) Take(r *http.Request) FaultyHandler {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.list {
		if fault.Times > 0 && strings.HasSuffix(host+r.URL.Path, fault.On) {
			fault.Times--
			return fault.Handler
		}
	}
	return nil
}

// Left counts what has not gone wrong yet.
func (f *Faults) Left() (left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.list {
		left += fault.Times
	}
	return left
}
