package ui

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

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
		watcher, err := certwatcher.New(l.CertFile, l.KeyFile)
		if err != nil {
			listener.Close()
			return fmt.Errorf("reading the certificate of the audit page: %w", err)
		}
		go func() {
			if err := watcher.Start(ctx); err != nil {
				ctrllog.FromContext(ctx).Error(err, "watching the certificate of the audit page; a new one is not seen")
			}
		}()
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: watcher.GetCertificate})
	}
	server := &http.Server{
		Handler: l.Server, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: responseTimeout, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(quiet{ctx}, "", 0),
	}
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close() // open connections are closed
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the audit page: %w", err)
	}
	return nil
}

// quiet logs messages of net/http, such as failed handshakes, at a higher verbosity: any
// client can cause them.
type quiet struct{ ctx context.Context }

func (q quiet) Write(b []byte) (int, error) {
	ctrllog.FromContext(q.ctx).V(1).Info("serving the audit page", "message", string(b))
	return len(b), nil
}
