package source

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
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
	"testing"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

var secret = &BasicAuth{Username: "robot", Password: canary}

func TestBasicAuth(t *testing.T) {
	s := newServer(t, func(g *gittestserver.GitServer) { g.Auth(secret.Username, secret.Password) })
	r := newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	url := s.push(r, "repo.git")
	m := newMirrors(t)
	mustFetch(t, m, Remote{URL: url, Auth: secret})
	for _, auth := range map[string]Auth{
		"none":  nil,
		"wrong": &BasicAuth{Username: "robot", Password: canary + "x"},
	} {
		// An existing mirror of the repository gives no access without credentials.
		_, err := m.Fetch(t.Context(), Remote{URL: url, Auth: auth})
		wantError(t, err, ErrAuthentication, url, "401")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", *secret, *secret, *secret, secret); strings.Contains(text, canary) {
		t.Errorf("the password is printed: %s", text)
	}
}

// security.md 9, 14: no error contains the text of a server's error response.
func TestStatusCodes(t *testing.T) {
	for status, kind := range map[int]error{
		400: ErrInvalid, 401: ErrAuthentication, 403: ErrAuthentication, 404: ErrNotFound, 410: ErrNotFound,
		429: ErrUnreachable, 500: ErrUnreachable, 502: ErrUnreachable, 503: ErrUnreachable, 504: ErrUnreachable,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				fmt.Fprint(w, "the body says ", canary, r.Header.Get("Authorization"))
			}))
			defer server.Close()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: server.URL + "/x.git", Auth: secret})
			wantError(t, err, kind, fmt.Sprint(status))
			if strings.Contains(err.Error(), "the body") {
				t.Errorf("error %q echoes the body", err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	resetting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	defer resetting.Close()
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = discard
	untrusted.StartTLS()
	defer untrusted.Close()
	for name, c := range map[string]struct{ url, says string }{
		"down":                    {closed.URL, "connection refused"},
		"closes the connection":   {resetting.URL, "closed the connection"},
		"untrusted certificate":   {untrusted.URL, "certificate"},
		"https to a plain server": {strings.Replace(resetting.URL, "http:", "https:", 1), "TLS"},
		"no such host":            {"https://no-such-host.invalid", "no-such-host.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: c.url + "/x.git", Auth: secret})
			wantError(t, err, ErrUnreachable, c.says)
		})
	}
}

func TestNoGitServer(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		kind error
		says string
	}{
		"a web page":         {"<html>" + canary, ErrInvalid, "does not speak Git smart HTTP"},
		"nothing":            {"", ErrInvalid, "does not speak Git smart HTTP"},
		"half a line":        {"001e# service", ErrUnreachable, "closed the connection"},
		"SHA-256":            {pkt("# service=git-upload-pack\n") + "0000" + pkt(strings.Repeat("ab", 32)+" HEAD\x00object-format=sha256\n") + "0000", ErrUnsupported, "SHA-256"},
		"a shallow clone":    {pkt("# service=git-upload-pack\n") + "0000" + pkt(id1+" refs/heads/main\x00ofs-delta\n") + pkt("shallow "+id1) + "0000", ErrInvalid, "shallow"},
		"no commits":         {pkt("# service=git-upload-pack\n") + "0000" + "0000", ErrNotFound, "empty"},
		"no branch":          {pkt("# service=git-upload-pack\n") + "0000" + pkt(id1+" refs/tags/v1\x00ofs-delta\n") + "0000", ErrNotFound, "it has none"},
		"a ref as a path":    {pkt("# service=git-upload-pack\n") + "0000" + pkt(id1+" refs/heads/main\x00ofs-delta\n") + pkt(id1+" refs/heads/../../config\n") + "0000", ErrInvalid, "../../config"}, // security.md 4
		"a ref with a lock":  {pkt("# service=git-upload-pack\n") + "0000" + pkt(id1+" refs/heads/main.lock\x00ofs-delta\n") + "0000", ErrInvalid, "main.lock"},
		"endless references": {pkt("# service=git-upload-pack\n") + "0000" + strings.Repeat(pkt(id1+" refs/heads/"+strings.Repeat("x", 60_000)+"\x00\n"), transport.MaxRefsBytes/60_000+1), ErrInvalid, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			m := newMirrors(t)
			_, err := m.Fetch(t.Context(), Remote{URL: server.URL + "/x.git", Auth: secret})
			wantError(t, err, c.kind, c.says)
		})
	}
}

const id1 = "1111111111111111111111111111111111111111"

// pkt returns a pkt-line of Git's protocol.
func pkt(line string) string { return fmt.Sprintf("%04x%s", len(line)+4, line) }

// security.md 2: credentials are only sent to the host that they are for.
func TestRedirectToAnotherHost(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	var authorized, requests atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		if req.Header.Get("Authorization") != "" {
			authorized.Add(1)
		}
		proxyTo(t, s.proxy.URL).ServeHTTP(w, req)
	}))
	defer elsewhere.Close()
	var asked atomic.Int64
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password == canary {
			asked.Add(1)
		}
		http.Redirect(w, req, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)+req.URL.String(), http.StatusFound)
	}))
	defer first.Close()
	got := mustFetch(t, newMirrors(t), Remote{URL: first.URL + "/repo.git", Auth: secret})
	if len(got.Files) != 1 || requests.Load() != 2 || asked.Load() != 1 {
		t.Errorf("got %+v after %d requests there and %d with credentials here", got, requests.Load(), asked.Load())
	}
	if authorized.Load() > 0 {
		t.Errorf("%d requests took the credentials to another host", authorized.Load())
	}
}

func TestRedirectsThatAreNotFollowed(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer plain.Close()
	for name, to := range map[string]string{
		"https to http": plain.URL + "/?token=" + canary, // security.md 2, 8
		"to a file":     "file:///etc/passwd",            // security.md 8
		"to git://":     "git://127.0.0.1/x",             // security.md 8
	} {
		t.Run(name, func(t *testing.T) {
			first := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, to, http.StatusFound)
			}))
			defer first.Close()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: first.URL + "/x.git", CA: caOf(first), Auth: secret})
			wantError(t, err, ErrInvalid, "redirects")
		})
	}
	t.Run("in circles", func(t *testing.T) {
		var first *httptest.Server
		first = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, first.URL+req.URL.String(), http.StatusFound)
		}))
		defer first.Close()
		_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: first.URL + "/x.git", Auth: secret})
		wantError(t, err, ErrInvalid, "redirects")
	})
}

// Loopback and link-local addresses and metadata services are rejected by resolved address, in
// every notation, before and after a redirect (security.md 9, 42).
func TestAddresses(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	at := s.push(r, "repo.git")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.proxy.URL, "http://"))
	refused := []string{
		"127.0.0.1", "127.1.2.3", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "169.254.169.254", "[fe80::1]", "224.0.0.1",
		// metadata services
		"169.254.170.2", "169.254.170.23", "169.254.42.42", "169.254.0.23", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"[fd00:ec2::254]", "[fd00:ec2::23]", "[fd20:ce::254]", "[fd00:c1::a9fe:a9fe]", "[fd00:42::42]", "[fd00:a9fe:a9fe::1]", "[fd00:100::100:200]",
		// IPv4 addresses in IPv6: NAT64, its local prefixes of each length, 6to4, compatible and translated
		"[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::169.254.169.254]", "[64:ff9b:1:a9fe:00a9:fe00::]", "[64:ff9b:1:1a9:fe:a9fe::]", "[64:ff9b:1:1:a9:fea9:fe00::]",
		"[64:ff9b:1::192.0.0.192]", "[64:ff9b:1::127.0.0.1]", "[64:ff9b:1::]", "[2002:a9fe:a9fe::1]", "[2002:7f00:1::]", "[2002:c000:c0::1]",
		"[::169.254.169.254]", "[::127.0.0.1]", "[::ffff:0:169.254.169.254]",
	}
	for _, host := range refused {
		t.Run(host, func(t *testing.T) {
			m := newMirrors(t)
			m.AllowedCIDRs = nil
			requests, _ := s.cost(func() {
				_, err := m.Fetch(t.Context(), Remote{URL: "http://" + host + ":" + port + "/repo.git", Auth: secret})
				wantError(t, err, ErrInvalid, "refusing to connect", "--git-allowed-cidrs")
			})
			if requests != 0 {
				t.Error("a request arrived")
			}
		})
	}
	t.Run("after a redirect", func(t *testing.T) {
		for _, host := range refused {
			if host == "127.0.0.1" || host == "localhost" || host == "[::ffff:127.0.0.1]" || host == "[64:ff9b:1::127.0.0.1]" || host == "[2002:7f00:1::]" || host == "[::127.0.0.1]" {
				continue // these addresses are allowed below
			}
			to := "http://" + host + ":" + port
			first := httptest.NewServer(http.RedirectHandler(to+"/repo.git/info/refs?service=git-upload-pack", http.StatusFound))
			m := newMirrors(t)
			m.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
			_, err := m.Fetch(t.Context(), Remote{URL: first.URL + "/repo.git", Auth: secret})
			wantError(t, err, ErrInvalid, "refusing to connect")
			first.Close()
		}
	})
	t.Run("allowed", func(t *testing.T) { mustFetch(t, newMirrors(t), Remote{URL: at}) })

}

// security.md 5, 8, 13, 14: invalid remotes are rejected before anything is sent.
func TestInvalidRemotes(t *testing.T) {
	m := newMirrors(t)
	for _, at := range []string{
		"", "/etc", "./x", "repo.git", "file:///etc", "file://host/etc", "ext::sh -c touch% /tmp/x", "git://host/x", "git@host:x.git",
		"https://", "https:///x", "https:x", "https://user:" + canary + "@host/x", "https://" + canary + "@host/x", "https://host/x?token=" + canary,
		"https://host/x#" + canary, "https://host/x y", "https://host/x'y", "https://host/x\"y", "https://host/x;y", "https://host/$(x)", "https://host/x\ny",
		"https://host/`x`", "https://--upload-pack=x /x", "ftp://host/x", "https://host:port/" + canary, "https://ho st/" + "x",
	} {
		_, err := m.Fetch(t.Context(), Remote{URL: at, Auth: secret})
		wantError(t, err, ErrInvalid)
	}
	_, err := (&Mirrors{Dir: t.TempDir()}).Fetch(t.Context(), Remote{URL: "http://host/x", Auth: secret})
	wantError(t, err, ErrInvalid, "plain http")
	for _, r := range []Remote{
		{Path: "../x"}, {Path: "/etc"}, {Path: "a/../../x"}, {Path: `a\b`}, {Path: "a\x00b"}, {Path: strings.Repeat("a/", 40)}, {Path: strings.Repeat("a", 2000)},
		{Branch: "../../config"}, {Branch: "a b"}, {Branch: "-x^{}"}, {Branch: "x.lock"}, {Branch: "a..b"}, {Branch: "/a"}, {Branch: "a\x1b[1m"},
		{Commit: "abc"}, {Commit: Commit(strings.ToUpper(strings.Repeat("a", 40)))}, {Branch: "main", Commit: id1},
		{CA: []byte("no certificate")},
	} {
		r.URL, r.Auth = "https://host.invalid/x.git", secret
		_, err := m.Fetch(t.Context(), r)
		wantError(t, err, ErrInvalid)
	}
	if entries, err := os.ReadDir(m.Dir); err == nil && len(entries) > 1 {
		t.Errorf("%d mirrors were made", len(entries))
	}
}

// security.md 7: the error for a slow server names the phase that timed out.
func TestSlowServer(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n", "noise.bin", noise(100_000))
	s.push(r, "repo.git")
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	drip := func(part string) string {
		return slowServer(t, s.proxy.URL, part)
	}
	for name, c := range map[string]struct{ url, phase string }{
		"TLS without an answer":        {"https://" + silent, "phase TLS"},
		"http without an answer":       {"http://" + silent, "phase refs"},
		"references, a byte at a time": {drip("info/refs"), "phase refs"},
		"a pack, a byte at a time":     {drip("git-upload-pack"), "phase pack"},
		"an address nobody answers at": {"http://" + fullBacklog(t), "phase dial"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: c.url + "/repo.git", Auth: secret, Timeout: 2 * time.Second})
			wantError(t, err, ErrUnreachable, c.phase, "2s")
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Run("the caller's context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := newMirrors(t).Fetch(ctx, Remote{URL: "http://" + silent + "/repo.git", Auth: secret})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	})
}

// slowServer is a Git server that sends one kind of response a byte at a time.
func slowServer(t *testing.T, to, part string) string {
	t.Helper()
	proxy := proxyTo(t, to)
	proxy.ModifyResponse = func(res *http.Response) error {
		if strings.HasSuffix(res.Request.URL.Path, part) {
			res.Body = dripBody{res.Body, res.Request.Context()}
		}
		return nil
	}
	proxy.FlushInterval = -1
	proxy.ErrorLog = discard
	server := httptest.NewUnstartedServer(proxy)
	server.Config.ErrorLog = discard
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

type dripBody struct {
	io.ReadCloser
	ctx context.Context
}

func (d dripBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-d.ctx.Done():
	}
	return d.ReadCloser.Read(p[:1])
}

// listen accepts connections and calls a function for each.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); serve(c) }()
		}
	}()
	return l.Addr().String()
}

func proxyTo(t *testing.T, to string) *httputil.ReverseProxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return reverseProxy(u)
}

func caOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// A crash can leave a mirror in any state. The result of the next fetch is the same.
func TestDamagedMirror(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n", "noise.bin", noise(5000))
	r.commit("a.yaml", "a: 2\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	want := mustFetch(t, newMirrors(t), remote)
	for name, damage := range map[string]func(t *testing.T, dir string){
		"a pack cut short":          each("objects/pack/*.pack", func(data []byte) []byte { return data[:len(data)/2] }),
		"an empty pack":             each("objects/pack/*.pack", func([]byte) []byte { return nil }),
		"a pack with other bytes":   each("objects/pack/*.pack", func(data []byte) []byte { clear(data[12 : len(data)-20]); return data }),
		"an index cut short":        each("objects/pack/*.idx", func(data []byte) []byte { return data[:len(data)/2] }),
		"an empty index":            each("objects/pack/*.idx", func([]byte) []byte { return nil }),
		"an index with other bytes": each("objects/pack/*.idx", func(data []byte) []byte { clear(data[1000:1100]); return data }),
		"no index":                  remove("objects/pack/*.idx"),
		"no pack":                   remove("objects/pack/*.pack"),
		"no packs at all":           remove("objects/pack"),
		"no objects":                remove("objects"),
		"strange references":        each("packed-refs", func([]byte) []byte { return []byte("what is this\n") }),
		"references cut short":      each("packed-refs", func(data []byte) []byte { return data[:len(data)-3] }),
		"no references":             remove("packed-refs"),
		"a fetch that was killed": func(t *testing.T, dir string) {
			repoAt(t, dir).write("incoming-123/pack", "PACK")
		},
		"an index renamed, its pack not yet": func(t *testing.T, dir string) {
			repoAt(t, dir).write("objects/pack/pack-"+id1+".idx", "half an ind")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirrors(t)
			mustFetch(t, m, remote)
			damage(t, mirrorDir(t, m))
			restarted := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
			if diff := cmp.Diff(want, mustFetch(t, restarted, remote), snapshots); diff != "" {
				t.Error(diff)
			}
			if left, _ := filepath.Glob(filepath.Join(mirrorDir(t, m), "incoming-*")); left != nil {
				t.Errorf("a killed fetch left %v", left)
			}
			git(t, mirrorDir(t, m), "fsck", "--no-dangling")
			if requests, _ := s.cost(func() { mustFetch(t, restarted, remote) }); requests != 1 {
				t.Errorf("once it is whole an unchanged remote takes %d requests", requests)
			}
		})
	}
	t.Run("deleted while it is in use", func(t *testing.T) {
		m := newMirrors(t)
		mustFetch(t, m, remote)
		if err := os.RemoveAll(mirrorDir(t, m)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, mustFetch(t, m, remote), snapshots); diff != "" {
			t.Error(diff)
		}
	})
}

// each returns a function that damages all files that match a pattern.
func each(pattern string, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, path := range glob(t, dir, pattern) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func remove(pattern string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, path := range glob(t, dir, pattern) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("nothing matches %s: %v", pattern, err)
	}
	return found
}

func mirrorDir(t *testing.T, m *Mirrors) string {
	t.Helper()
	return glob(t, m.Dir, "*")[0]
}
