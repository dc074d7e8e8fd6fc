package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/zeebo/blake3"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/phase"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// Server downloads artifacts from file servers.
type Server struct {
	// Dir is the folder in which an archive is stored while it is read, as a file without
	// a name; "" is the system's folder for temporary files.
	Dir string
	// Hosts are the only servers to download from: as host, which allows the default port
	// of the URL's scheme, or as host:port.
	Hosts []string
	// AllowedCIDRs are addresses to connect to even if they are loopback, link-local or
	// otherwise rejected.
	AllowedCIDRs []netip.Prefix
	// Limits bound one artifact.
	Limits Limits
}

// Limits bound one artifact.
type Limits struct {
	Bytes    int64 // size of the archive, on disk
	Inflated int64 // size when decompressed, which is done twice and never stored
	Entries  int   // number of entries
}

// DefaultLimits are above what Flux serves: Flux itself unpacks at most 100 MiB
// (DefaultMaxUntarSize of github.com/fluxcd/pkg/tar v1.2.0).
func DefaultLimits() Limits {
	return Limits{Bytes: 128 << 20, Inflated: 512 << 20, Entries: filter.MaxEntries}
}

// timeout bounds a whole download.
const timeout = 2 * time.Minute

// Read downloads the archive at an address, checks its digest, and only then reads the profile
// files in it that are in a scope.
func (s Server) Read(ctx context.Context, address, digest string, in filter.Scope) ([]filter.File, []filter.RejectedEntry, error) {
	want, err := parseDigest(digest)
	if err != nil {
		return nil, nil, err
	}
	from, err := s.parseAllowedURL(address)
	if err != nil {
		return nil, nil, err
	}
	file, err := s.createTempFile()
	if err != nil {
		return nil, nil, fmt.Errorf("making a file to download to: %w", err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &phase.SlowError{Phase: "download", Timeout: timeout})
	defer cancel()
	if err := s.download(ctx, from, file, want); err != nil {
		return nil, nil, err
	}
	return s.Limits.readArchive(ctx, file, in)
}

// createTempFile creates a file and removes its name, so that the kernel deletes the file when it
// is closed or this process is killed.
func (s Server) createTempFile() (*os.File, error) {
	if s.Dir != "" {
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(s.Dir, "artifact-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// parseAllowedURL rejects an address whose host is not in Hosts, before anything is sent.
func (s Server) parseAllowedURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fault.New(fault.ErrInvalid, "its URL cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fault.New(fault.ErrInvalid, "its URL has the scheme %q; only http and https are supported", fault.EscapeUnprintable(fault.Shorten(u.Scheme)))
	case u.User != nil:
		return nil, fault.New(fault.ErrInvalid, "its URL contains user-info")
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), transport.PortOf(u)
	for _, allowed := range s.Hosts {
		name, onPort, err := net.SplitHostPort(allowed)
		if err != nil {
			name, onPort = strings.Trim(allowed, "[]"), transport.SchemePort(u.Scheme)
		}
		if host != "" && host == strings.TrimSuffix(strings.ToLower(name), ".") && onPort == port {
			return u, nil
		}
	}
	return nil, fault.New(fault.ErrInvalid, "it is stored on %s, and only these hosts are allowed: %s; add the address of Flux's source-controller to --artifact-hosts, with its port unless that is the default of the scheme",
		fault.EscapeUnprintable(fault.Shorten(u.Host)), strings.Join(s.Hosts, ", "))
}

// wantedDigest is a digest to compare with.
type wantedDigest struct {
	hash  hash.Hash
	value string
}

// parseDigest supports the algorithms of source-controller's --artifact-digest-algo.
func parseDigest(text string) (wantedDigest, error) {
	algorithm, sum, _ := strings.Cut(text, ":")
	var h hash.Hash
	switch algorithm {
	case "sha256":
		h = sha256.New()
	case "sha384":
		h = sha512.New384()
	case "sha512":
		h = sha512.New()
	case "blake3":
		h = blake3.New()
	default:
		return wantedDigest{}, fault.New(fault.ErrInvalid, "its digest is not of a supported algorithm: sha256, sha384, sha512 or blake3")
	}
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != h.Size() || sum != strings.ToLower(sum) {
		return wantedDigest{}, fault.New(fault.ErrInvalid, "its digest is malformed")
	}
	return wantedDigest{hash: h, value: sum}, nil
}

// download stores the archive in a file and verifies its digest.
func (s Server) download(ctx context.Context, from *url.URL, to *os.File, want wantedDigest) error {
	// Use no proxy: the file server is in this cluster, and a proxy would connect to an
	// address that was not checked.
	transport := &http.Transport{
		DialContext:            dial.HTTPOptions{Timeout: transport.DefaultTimeout, AllowedCIDRs: s.AllowedCIDRs}.DialContext,
		TLSHandshakeTimeout:    transport.DefaultTimeout,
		ResponseHeaderTimeout:  transport.DefaultTimeout,
		MaxResponseHeaderBytes: dial.MaxHeaderBytes,
		DisableCompression:     true, // the digest is that of the compressed archive
		DisableKeepAlives:      true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport,
		// A redirect could lead to a host that was not checked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return fault.New(fault.ErrInvalid, "its URL cannot be requested")
	}
	res, err := client.Do(req)
	if err != nil {
		return explainDownload(ctx, from, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fault.New(fault.ErrInvalid, "%s redirects, which is not followed", from.Host)
	case res.StatusCode == http.StatusNotFound:
		return fault.New(fault.ErrUnreachable, "%s does not have it, or no longer: Flux will publish another", from.Host)
	case res.StatusCode != http.StatusOK:
		return fault.New(fault.ErrUnreachable, "%s answers with status %d", from.Host, res.StatusCode)
	case res.ContentLength > s.Limits.Bytes:
		return s.Limits.tooBig()
	}
	// The header can be missing or wrong, so the limit applies to the body, too.
	n, err := io.Copy(io.MultiWriter(&diskWriter{to}, want.hash), io.LimitReader(res.Body, s.Limits.Bytes+1))
	if disk, ok := errors.AsType[*diskError](err); ok {
		return fmt.Errorf("writing the download: %w", disk.err)
	}
	if err != nil {
		return explainDownload(ctx, from, err)
	}
	if n > s.Limits.Bytes {
		return s.Limits.tooBig()
	}
	// Flux can have replaced the file since its status was read, so a retry can succeed.
	if got := hex.EncodeToString(want.hash.Sum(nil)); got != want.value {
		return fault.New(fault.ErrUnreachable, "%s sent content with the digest %s instead of %s; it was not read", from.Host, got, want.value)
	}
	_, err = to.Seek(0, io.SeekStart)
	return err
}

// diskWriter marks errors of the disk, which io.Copy returns like those of the network.
type diskWriter struct{ file *os.File }

func (w *diskWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if err != nil {
		err = &diskError{err}
	}
	return n, err
}

type diskError struct{ err error }

func (e *diskError) Error() string { return e.err.Error() }

func (l Limits) tooBig() error {
	return fault.New(fault.ErrInvalid, "it has more than %d bytes: exclude files without profiles with spec.ignore of the Flux source", l.Bytes)
}

// explainDownload returns why a download failed. It removes the URL that net/http adds,
// because its query can contain a token.
func explainDownload(ctx context.Context, from *url.URL, err error) error {
	if addressErr, ok := dial.AsAddressError(err); ok {
		return fault.New(fault.ErrInvalid, "%s: %v; to allow it, set --git-allowed-cidrs", from.Host, addressErr)
	}
	if slow, ok := errors.AsType[*phase.SlowError](context.Cause(ctx)); ok {
		return fault.New(fault.ErrUnreachable, "%s: %v", from.Host, slow)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return fault.New(fault.ErrUnreachable, "%s: %v", from.Host, err)
}
