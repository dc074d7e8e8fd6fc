package source

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
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/blake3"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// Artifacts downloads what Flux's source-controller has fetched: archives on its
// file server, each with a digest. Its fields are set once, before the first Read.
type Artifacts struct {
	// Dir is where an archive lies while it is read, in a file without a name; "" is
	// the system's folder for such files.
	Dir string
	// Hosts may be asked, as host, on the port of the URL's scheme, or as host:port.
	// Whoever may write the status of a Flux object could else make us ask anyone in the
	// cluster.
	Hosts []string
	// AllowedCIDRs are addresses to connect to although they are loopback,
	// link-local or otherwise refused.
	AllowedCIDRs []netip.Prefix

	turns turns // to download and read
}

// Artifact is one archive, as the status of a Flux object describes it, and what to
// read of it.
type Artifact struct {
	// URL, Digest and Revision are the status's.
	URL, Digest, Revision string
	// Commit is what the archive was made from, where its maker tells; "" is Revision.
	Commit string
	// Repository is the address of what Flux fetched.
	Repository string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore holds patterns in gitignore's syntax, relative to Path, which come after
	// those of every IgnoreFile.
	Ignore string
}

// artifactTimeout bounds a download from its beginning to its end.
const artifactTimeout = 2 * time.Minute

// Read downloads an archive, checks its digest, and only then reads it. Nothing of it
// is written to disk but the archive itself. The snapshot has no history: its Head is
// the artifact's commit or, where nobody tells, its revision, which is longer than a
// commit's id. Errors are of the kinds ErrUnreachable, ErrNotFound, ErrInvalid and
// ErrUnsupported; any other is the context's, or this machine's disk.
func (a *Artifacts) Read(ctx context.Context, from Artifact) (*Snapshot, error) {
	snapshot, err := a.read(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("reading the artifact %s of %s: %w", fault.Printable(fault.Shorten(from.Revision)), CleanAddress(from.Repository), err)
	}
	return snapshot, nil
}

func (a *Artifacts) read(ctx context.Context, from Artifact) (*Snapshot, error) {
	parts, err := filter.SplitPath(from.Path)
	if err != nil {
		return nil, err
	}
	if from.Commit == "" {
		from.Commit = from.Revision
	}
	for _, text := range []string{from.Revision, from.Commit} {
		if text == "" || len(text) > revision.MaxBytes || !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
			return nil, fault.New(fault.ErrInvalid, "its revision is empty, too long or not printable")
		}
	}
	want, err := parseDigest(from.Digest)
	if err != nil {
		return nil, err
	}
	address, err := a.check(from.URL)
	if err != nil {
		return nil, err
	}
	done, err := a.turns.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	file, err := a.temporary()
	if err != nil {
		return nil, fmt.Errorf("making a file to download to: %w", err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, artifactTimeout, &transport.SlowError{Phase: "download", Timeout: artifactTimeout})
	defer cancel()
	if err := a.download(ctx, address, file, want); err != nil {
		return nil, err
	}
	s := &Snapshot{Revision: from.Revision, Repository: CleanAddress(from.Repository), Head: Commit(from.Commit)}
	s.Files, s.Refused, err = readArchive(ctx, file, filter.Scope{Parts: parts, Ignore: from.Ignore})
	return s, err
}

func isControl(r rune) bool { return !unicode.IsPrint(r) }

// temporary makes a file that has no name any more, so that it goes when it is
// closed, or when this process is killed.
func (a *Artifacts) temporary() (*os.File, error) {
	if a.Dir != "" {
		if err := os.MkdirAll(a.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(a.Dir, "artifact-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// check refuses an address that is not to be asked, before anything is sent.
func (a *Artifacts) check(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fault.New(fault.ErrInvalid, "its URL cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fault.New(fault.ErrInvalid, "its URL has the scheme %q; only http and https are known", fault.Printable(fault.Shorten(u.Scheme)))
	case u.User != nil:
		return nil, fault.New(fault.ErrInvalid, "its URL contains user-info")
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), transport.PortOf(u)
	for _, allowed := range a.Hosts {
		name, onPort, err := net.SplitHostPort(allowed)
		if err != nil {
			name, onPort = strings.Trim(allowed, "[]"), transport.SchemePort(u.Scheme)
		}
		if host != "" && host == strings.TrimSuffix(strings.ToLower(name), ".") && onPort == port {
			return u, nil
		}
	}
	return nil, fault.New(fault.ErrInvalid, "it lies on %s, and only %s may be asked: name the address of Flux's source-controller with --artifact-hosts, and its port unless that is the scheme's",
		fault.Printable(fault.Shorten(u.Host)), strings.Join(a.Hosts, ", "))
}

// wantedDigest is a digest to compare with.
type wantedDigest struct {
	hash hash.Hash
	sum  string
}

// parseDigest knows the algorithms of source-controller's --artifact-digest-algo.
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
		return wantedDigest{}, fault.New(fault.ErrInvalid, "it has no digest that is known: sha256, sha384, sha512 or blake3")
	}
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != h.Size() || sum != strings.ToLower(sum) {
		return wantedDigest{}, fault.New(fault.ErrInvalid, "its digest is malformed")
	}
	return wantedDigest{hash: h, sum: sum}, nil
}

// download brings the archive into a file, if it is what its digest says.
func (a *Artifacts) download(ctx context.Context, from *url.URL, to *os.File, want wantedDigest) error {
	// No proxy: the file server is in this cluster, and a proxy would be asked
	// instead of the address that was checked.
	transport := &http.Transport{
		DialContext:            Way{Timeout: transport.DefaultTimeout, AllowedCIDRs: a.AllowedCIDRs}.DialContext,
		TLSHandshakeTimeout:    transport.DefaultTimeout,
		ResponseHeaderTimeout:  transport.DefaultTimeout,
		MaxResponseHeaderBytes: transport.MaxHeaderBytes,
		DisableCompression:     true, // the archive is compressed, and its digest is that of what is sent
		DisableKeepAlives:      true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return fault.New(fault.ErrInvalid, "its URL cannot be asked")
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
		return fault.New(fault.ErrUnreachable, "%s does not have it (any more); Flux will name another", from.Host)
	case res.StatusCode != http.StatusOK:
		return fault.New(fault.ErrUnreachable, "%s answers with status %d", from.Host, res.StatusCode)
	case res.ContentLength > maxArtifactBytes:
		return tooBigArtifact()
	}
	n, err := io.Copy(io.MultiWriter(&diskWriter{to}, want.hash), io.LimitReader(res.Body, maxArtifactBytes+1))
	if disk, ok := errors.AsType[*diskError](err); ok {
		return fmt.Errorf("writing the download: %w", disk.err)
	}
	if err != nil {
		return explainDownload(ctx, from, err)
	}
	if n > maxArtifactBytes {
		return tooBigArtifact()
	}
	if got := hex.EncodeToString(want.hash.Sum(nil)); got != want.sum {
		return fault.New(fault.ErrUnreachable, "%s sent something else: its digest is %s, not %s; nothing of it was read", from.Host, got, want.sum)
	}
	_, err = to.Seek(0, io.SeekStart)
	return err
}

// diskWriter tells errors of the disk from those of the network.
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

func tooBigArtifact() error {
	return fault.New(fault.ErrInvalid, "it has more than %d bytes; let Flux leave out what holds no profiles, with spec.ignore", maxArtifactBytes)
}

// explainDownload words why nothing came. What net/http says of a URL is left out:
// its query may hold a token.
func explainDownload(ctx context.Context, from *url.URL, err error) error {
	if refused, ok := transport.RefusedAddress(err); ok {
		return fault.New(fault.ErrInvalid, "%s: %v; if that is right, allow it with --git-allowed-cidrs", from.Host, refused)
	}
	if slow, ok := errors.AsType[*transport.SlowError](context.Cause(ctx)); ok {
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

// CleanAddress takes user-info and query off the address of what Flux fetched.
func CleanAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return fault.Printable(fault.Shorten(raw[strings.LastIndexByte(raw, '@')+1:]))
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
