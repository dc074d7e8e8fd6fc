package listen

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

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
