package listen

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Serve serves until ctx ends. It then waits for current requests, for at most stopTime, and
// interrupts slower ones.
func Serve(ctx context.Context, server *http.Server, l net.Listener, stopTime time.Duration) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	})
	if err := server.Serve(l); stop() {
		return err
	}
	<-stopped
	return nil
}

// TLS adds TLS to a listener, with a certificate in files that are read again when they change.
func TLS(ctx context.Context, l net.Listener, certFile, keyFile string) (net.Listener, error) {
	watcher, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		l.Close()
		return nil, err
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			ctrllog.FromContext(ctx).Error(err, "watching a certificate; a renewed certificate is not used", "file", certFile)
		}
	}()
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: watcher.GetCertificate}), nil
}

// ErrorLog is for http.Server.ErrorLog. It logs messages of net/http, such as failed handshakes, at a
// higher verbosity, because any client can cause them.
func ErrorLog(ctx context.Context, serving string) *log.Logger {
	return log.New(errorLog{ctx, serving}, "", 0)
}

type errorLog struct {
	ctx     context.Context
	serving string
}

func (l errorLog) Write(b []byte) (int, error) {
	ctrllog.FromContext(l.ctx).V(1).Info(l.serving, "message", string(b))
	return len(b), nil
}
