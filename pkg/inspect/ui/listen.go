package ui

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/listen"
)

// Timeouts and bounds of the server.
const (
	headerTime      = 5 * time.Second
	requestTime     = 10 * time.Second
	responseTimeout = 2 * time.Minute // includes a verification
	idleTime        = time.Minute
	stopTime        = 5 * time.Second
	maxHeader       = maxToken + 8<<10 // bytes: a token, as base64 in Basic, and the rest
)

// Listener serves the pages on an address.
type Listener struct {
	Server *Server
	// Address as SplitAddress returns it.
	Address string
	// CertFile and KeyFile enable TLS and are read again when they change. Without them the
	// server uses plain HTTP, for loopback.
	CertFile, KeyFile string
	// Listening is called with the address; nil disables it.
	Listening func(net.Addr)
}

// NeedLeaderElection is false: every replica serves the pages.
func (*Listener) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (l *Listener) Start(ctx context.Context) error {
	listener, err := listen.Listen(ctx, l.Address)
	if err != nil {
		return fmt.Errorf("listening for the audit page: %w", err)
	}
	if l.Listening != nil {
		l.Listening(listener.Addr())
	}
	if l.CertFile != "" {
		if listener, err = listen.TLS(ctx, listener, l.CertFile, l.KeyFile); err != nil {
			return fmt.Errorf("reading the certificate of the audit page: %w", err)
		}
	}
	server := &http.Server{
		Handler: l.Server, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: responseTimeout, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: listen.ErrorLog(ctx, "serving the audit page"),
	}
	if err := listen.Serve(ctx, server, listener, stopTime); err != nil {
		return fmt.Errorf("serving the audit page: %w", err)
	}
	return nil
}
