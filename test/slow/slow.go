// Package slow connects as a peer does that never sends what it announced.
package slow

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// Post opens connections from 127.0.0.1, each of which begins a POST and never sends its body. It
// returns when the server has, on each connection, begun to wait for the body, answered, or closed
// the connection. They stay open until the test ends.
func Post(t *testing.T, connections int, address string, config *tls.Config, path string, header ...string) {
	t.Helper()
	head := "POST " + path + " HTTP/1.1\r\nHost: slow\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n"
	for _, h := range header {
		head += h + "\r\n"
	}
	done := make(chan struct{})
	for range connections {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if config != nil {
			c = tls.Client(c, config)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			if _, err := fmt.Fprint(c, head+"\r\n"); err == nil {
				_, _ = bufio.NewReader(c).ReadString('\n') // "100 Continue", an answer, or the end
			}
		}()
	}
	for range connections {
		<-done
	}
}

// OpenSlowConnections opens connections from 127.0.0.1, each of which gets a path and stays open until the test
// ends or the server closes it.
func OpenSlowConnections(t *testing.T, connections int, address string, config *tls.Config, path string) {
	t.Helper()
	for range connections {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if config != nil {
			c = tls.Client(c, config)
		}
		go fmt.Fprint(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
}

// Client connects from 127.0.0.2. A request that waits for more than 20 seconds fails: idle
// connections are held for half a minute and more.
func Client(config *tls.Config) *http.Client {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return from.DialContext(ctx, network, address)
		},
	}}
}
