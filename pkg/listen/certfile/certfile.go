// Package certfile adds TLS to a listener. Start with TLS.
package certfile

import (
	"context"
	"crypto/tls"
	"net"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TLS adds TLS to a listener, with a certificate in files that are read again when they change.
func TLS(ctx context.Context, l net.Listener, certFile, keyFile string) (net.Listener, error) {
	watcher, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		l.Close()
		return nil, err
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "watching a certificate; a renewed certificate is not used", "file", certFile)
		}
	}()
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: watcher.GetCertificate}), nil
}
