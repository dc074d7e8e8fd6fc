package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// canary is part of every credential in these tests. No error may contain it.
const canary = "c4n4ry-p4ssw0rd"

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // the Git server logs every request
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, // ignore the user's configuration
		"GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_CONFIG_COUNT":  "1",
		"GIT_CONFIG_KEY_0":  "pack.threads", "GIT_CONFIG_VALUE_0": "1", // many servers share few cores
	} {
		if err := os.Setenv(name, value); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}

// repo is a work tree created with the real git.
type repo struct {
	*gittest.Repo
}

func newRepo(t testing.TB) *repo { return &repo{gittest.New(t)} }

// repoAt returns the work tree or the folder at a path.
func repoAt(t testing.TB, dir string) *repo { return &repo{&gittest.Repo{T: t, Dir: dir}} }

func (r *repo) git(args ...string) string { r.T.Helper(); return r.Git(args...) }

func (r *repo) write(path, content string) { r.T.Helper(); r.Write(path, content) }

func (r *repo) commit(files ...string) Commit { r.T.Helper(); return Commit(r.Commit(files...)) }

func (r *repo) head() Commit { r.T.Helper(); return Commit(r.Head()) }

// git runs the real git.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return gittest.Git(t, dir, args...)
}

func gitInput(t testing.TB, dir string, stdin io.Reader, args ...string) string {
	t.Helper()
	return gittest.Input(t, dir, stdin, args...)
}

// server is a real Git server behind a proxy that counts requests.
type server struct {
	t     testing.TB
	git   *gittestserver.GitServer
	proxy *httptest.Server

	requests atomic.Int64
	bytes    atomic.Int64 // of response bodies
}

func newServer(t testing.TB, opts ...func(*gittestserver.GitServer)) *server {
	t.Helper()
	g, err := gittestserver.NewTempGitServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(g.Root()) })
	for _, opt := range opts {
		opt(g)
	}
	if err := g.StartHTTP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.StopHTTP)
	s := &server{t: t, git: g}
	to, err := url.Parse(g.HTTPAddress())
	if err != nil {
		t.Fatal(err)
	}
	proxy := reverseProxy(to)
	proxy.ModifyResponse = func(res *http.Response) error {
		res.Body = countingBody{res.Body, &s.bytes}
		return nil
	}
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.proxy.Close)
	return s
}

// reverseProxy forwards requests. It reads each request completely first: the server closes
// the body of a request when the response starts, and a proxy that still reads the body would
// then close its connection to the client.
func reverseProxy(to *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.Out.Body != nil {
			body, err := io.ReadAll(r.Out.Body)
			if err != nil {
				body = nil // the client closed the connection
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
}

type countingBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c countingBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// push copies the repository to the server, under a name.
func (s *server) push(r *repo, name string) string {
	s.t.Helper()
	bare := s.path(name)
	if !pathExists(bare) {
		git(s.t, s.git.Root(), "init", "--quiet", "--bare", "--initial-branch=main", bare)
	}
	r.Push(bare, "refs/heads")
	return s.url(name)
}

func (s *server) path(name string) string { return filepath.Join(s.git.Root(), name) }
func (s *server) url(name string) string  { return s.proxy.URL + "/" + name }

// cost runs a function and returns the number of requests and bytes that it caused.
func (s *server) cost(f func()) (requests, bytes int64) {
	r, b := s.requests.Load(), s.bytes.Load()
	f()
	return s.requests.Load() - r, s.bytes.Load() - b
}

func newMirrors(t testing.TB) *Mirrors {
	t.Helper()
	return &Mirrors{Dir: t.TempDir(), AllowInsecure: true, AllowedCIDRs: loopback}
}

func mustFetch(t testing.TB, m *Mirrors, r Remote) *Snapshot {
	t.Helper()
	s, err := m.Fetch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantError checks the kind of an error, that its text contains some parts, and that it
// contains no credential: security.md 14.
func wantError(t testing.TB, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want one that is %q", err, kind)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), canary) {
		t.Errorf("error %q holds the password", err)
	}
}

func paths(files []File) []string {
	var p []string
	for _, f := range files {
		p = append(p, f.Path)
	}
	return p
}

var discard = log.New(io.Discard, "", 0)

// fullBacklog returns an address that does not answer, because its backlog of connections is
// full.
func fullBacklog(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
}

func plumbingHash(c Commit) plumbing.Hash { return plumbing.NewHash(string(c)) }

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
