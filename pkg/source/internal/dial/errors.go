package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// DescribeError describes an error of the network or TLS, or returns "". It quotes only
// types whose text contains nothing from the server.
func DescribeError(err error) string {
	var (
		dns    *net.DNSError
		op     *net.OpError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  tls.AlertError
	)
	switch {
	case errors.As(err, &cert):
		return "the server's certificate is not trusted: " + distrustReason(cert)
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS there"
	case errors.As(err, &alert):
		return fmt.Sprintf("TLS: %v", alert)
	case errors.As(err, &dns):
		return fmt.Sprintf("resolving %q: %s", dns.Name, unresolvedReason(dns))
	case errors.As(err, &op):
		again := *op
		again.Source = nil // our port differs in each attempt, and equal causes must have equal texts
		return again.Error()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection early"
	}
	return ""
}

// distrustReason returns why a certificate is not trusted. crypto/x509 includes the current second
// in the text for an expired certificate, and equal causes must have equal texts.
func distrustReason(err *tls.CertificateVerificationError) string {
	var invalid x509.CertificateInvalidError
	if !errors.As(err.Err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err.Err.Error()
	}
	return fmt.Sprintf("it is valid from %s to %s", invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
}

// unresolvedReason returns why a name has no address. The resolver's error contains our port, which
// differs in each attempt.
func unresolvedReason(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return err.Err
	case err.IsTimeout:
		return "the name server does not answer"
	case strings.Contains(err.Err, "->"): // as *net.OpError prints both ends of a connection
		return "the name server cannot be reached"
	}
	return err.Err
}
