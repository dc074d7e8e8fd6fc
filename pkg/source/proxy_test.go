package source

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxyServer is a small working proxy. It resolves every name to this machine and records
// requests.
type proxyServer struct {
	t        testing.TB
	address  string
	user     string // its password is canary; "" requires no authentication
	mu       sync.Mutex
	targets  []string // host and port as requested
	requests []string // URLs in plain http
	refused  int
}

func (p *proxyServer) note(list *[]string, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, what)
}

func (p *proxyServer) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused++
}

// refusals locks: connections are handled in goroutines of their own.
func (p *proxyServer) refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

func (p *proxyServer) connected() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.targets)
}

func (p *proxyServer) passed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// relay copies data between a client and a target.
func (p *proxyServer) relay(client io.ReadWriter, target string) {
	_, port, _ := net.SplitHostPort(target)
	to, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, client); to.Close() }()
	_, _ = io.Copy(client, to)
}

// ServeHTTP is an http proxy: CONNECT, and requests in plain http.
func (p *proxyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	if p.user != "" && (name != p.user || password != canary) {
		p.refuse()
		w.Header().Set("Proxy-Authenticate", `Basic realm="`+canary+`"`)
		http.Error(w, "the proxy says "+canary, http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		p.note(&p.requests, r.URL.String())
		_, port, _ := net.SplitHostPort(r.URL.Host)
		r.Header.Del("Proxy-Authorization")
		reverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port}).ServeHTTP(w, r)
		return
	}
	p.note(&p.targets, r.Host)
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 go ahead\r\n\r\n")
	p.relay(client, r.Host)
}

func newHTTPProxy(t testing.TB, user string) *proxyServer {
	t.Helper()
	p := &proxyServer{t: t, user: user}
	s := httptest.NewUnstartedServer(p)
	s.Config.ErrorLog = discard
	s.Start()
	t.Cleanup(s.CloseClientConnections)
	p.address = s.URL
	return p
}

func newHTTPSProxy(t testing.TB, ca *authority, user string) *proxyServer {
	t.Helper()
	p := &proxyServer{t: t, user: user}
	s := ca.serve(p)
	t.Cleanup(s.CloseClientConnections)
	p.address = s.URL
	return p
}

// newSOCKSProxy speaks RFC 1928 and 1929.
func newSOCKSProxy(t *testing.T, user string) *proxyServer {
	t.Helper()
	p := &proxyServer{t: t, user: user}
	p.address = "socks5://" + listen(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if target, ok := p.greet(c, r); ok {
			p.note(&p.targets, target)
			_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
			p.relay(struct {
				io.Reader
				io.Writer
			}{r, c}, target)
		}
	})
	return p
}

func (p *proxyServer) greet(w io.Writer, r *bufio.Reader) (target string, ok bool) {
	field := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(r, b)
		return b
	}
	methods := field(int(field(2)[1]))
	if p.user == "" {
		_, _ = w.Write([]byte{5, 0})
	} else {
		if !strings.Contains(string(methods), "\x02") {
			_, _ = w.Write([]byte{5, 0xff})
			p.refuse()
			return "", false
		}
		_, _ = w.Write([]byte{5, 2})
		name := string(field(int(field(2)[1])))
		password := string(field(int(field(1)[0])))
		if name != p.user || password != canary {
			_, _ = w.Write([]byte{1, 1})
			p.refuse()
			return "", false
		}
		_, _ = w.Write([]byte{1, 0})
	}
	var host string
	switch head := field(4); head[3] {
	case 1, 4:
		addr, _ := netip.AddrFromSlice(field(map[byte]int{1: 4, 4: 16}[head[3]]))
		host = addr.String()
	case 3:
		host = string(field(int(field(1)[0])))
	}
	return net.JoinHostPort(host, fmt.Sprint(binary.BigEndian.Uint16(field(2)))), true
}

func mustProxy(t testing.TB, s ProxySecret) *Proxy {
	t.Helper()
	p, err := ParseProxy(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The proxy resolves names: only it knows git.test.
func TestProxies(t *testing.T) {
	ca := newAuthority(t)
	host := newHostKey(t)
	plain, shell, r := newServer(t), newSSHServer(t, host), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	plain.push(r, "repo.git")
	shell.push(r, "repo.git")
	secure := ca.serve(proxyTo(t, plain.proxy.URL))
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	remotes := map[string]Remote{
		"https": {URL: "https://git.test:" + port(secure.URL) + "/repo.git", CA: ca.pem, Auth: secret},
		"http":  {URL: "http://git.test:" + port(plain.proxy.URL) + "/repo.git", Auth: secret},
		"ssh":   {URL: "ssh://git@git.test:" + port(shell.address) + "/repo.git", Auth: sshAuth(t, shell.client, knownHost("git.test:"+port(shell.address), host))},
	}
	for name, start := range map[string]func(user string) (*proxyServer, ProxySecret){
		"an http proxy": func(user string) (*proxyServer, ProxySecret) {
			return newHTTPProxy(t, user), ProxySecret{}
		},
		"an https proxy": func(user string) (*proxyServer, ProxySecret) {
			return newHTTPSProxy(t, ca, user), ProxySecret{CA: ca.pem}
		},
		"a socks5 proxy": func(user string) (*proxyServer, ProxySecret) {
			return newSOCKSProxy(t, user), ProxySecret{}
		},
	} {
		for scheme, remote := range remotes {
			t.Run(name+" for "+scheme, func(t *testing.T) {
				target := "git.test" + remote.URL[strings.LastIndexByte(remote.URL, ':'):strings.LastIndexByte(remote.URL, '/')]
				p, s := start("")
				s.Address = p.address
				remote.Proxy = mustProxy(t, s)
				if got := mustFetch(t, newMirrors(t), remote); len(got.Files) != 1 {
					t.Errorf("got %+v", got)
				}
				if scheme == "http" && name != "a socks5 proxy" {
					if len(p.connected()) > 0 || len(p.passed()) != 2 || !strings.HasPrefix(p.passed()[0], "http://"+target+"/repo.git/info/refs") {
						t.Errorf("it passed on %q and connected to %q", p.passed(), p.connected())
					}
				} else if len(p.connected()) != 1 || p.connected()[0] != target {
					t.Errorf("it connected to %q, want %s once", p.connected(), target)
				}

				p, s = start("robot")
				s.Address, s.Username, s.Password = p.address, "robot", canary
				remote.Proxy = mustProxy(t, s)
				mustFetch(t, newMirrors(t), remote)
				if p.refusals() > 0 {
					t.Errorf("it was asked %d times without credentials", p.refusals())
				}
				for _, wrong := range []ProxySecret{{Username: "robot", Password: canary + "x"}, {}} {
					wrong.Address, wrong.CA = s.Address, s.CA
					remote.Proxy = mustProxy(t, wrong)
					_, err := newMirrors(t).Fetch(t.Context(), remote)
					wantError(t, err, ErrAuthentication, "phase proxy", "proxy's Secret")
				}
				if p.refusals() == 0 {
					t.Error("it refused nobody: the test shows nothing")
				}
			})
		}
	}
}

// security.md 9: with a proxy, its address is checked, and that of the target if it is known.
func TestAddressesBehindAProxy(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	host := newHostKey(t)
	shell := newSSHServer(t, host)
	for name, p := range map[string]*proxyServer{"http": newHTTPProxy(t, ""), "socks5": newSOCKSProxy(t, "")} {
		proxy := mustProxy(t, ProxySecret{Address: p.address})
		t.Run(name+", the proxy's own", func(t *testing.T) {
			m := newMirrors(t)
			m.AllowedCIDRs = nil
			_, err := m.Fetch(t.Context(), Remote{URL: "https://git.test/repo.git", Auth: secret, Proxy: proxy})
			wantError(t, err, ErrInvalid, "refusing to connect to 127.0.0.1", "--git-allowed-cidrs")
			if len(p.connected())+len(p.passed()) > 0 {
				t.Error("it was connected to")
			}
		})
		t.Run(name+", the target's", func(t *testing.T) {
			m := newMirrors(t)
			m.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} // of the proxy
			for _, host := range []string{
				"127.0.0.2", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "0.0.0.0",
				"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "169.254.43518", "a.1",
			} {
				for _, scheme := range []string{"https", "http", "ssh"} {
					remote := Remote{URL: scheme + "://" + host + ":1/repo.git", Auth: secret, Proxy: proxy}
					if scheme == "ssh" {
						remote.Auth = sshAuth(t, shell.client, knownHost(shell.address, newHostKey(t)))
					}
					_, err := m.Fetch(t.Context(), remote)
					wantError(t, err, ErrInvalid, "refusing to connect")
				}
			}
			if len(p.connected())+len(p.passed()) > 0 {
				t.Errorf("it was asked for %q %q", p.connected(), p.passed())
			}
		})
		t.Run(name+", after a redirect", func(t *testing.T) {
			first := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/repo.git/info/refs?service=git-upload-pack", http.StatusFound))
			defer first.Close()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: first.URL + "/repo.git", Auth: secret, Proxy: proxy})
			wantError(t, err, ErrInvalid, "refusing to connect to 169.254.169.254")
		})
	}
}

// security.md 7, 9, 14: the error for a faulty proxy names it, comes before the timeout, and
// does not contain the proxy's response.
func TestBadProxies(t *testing.T) {
	answers := func(text string) string {
		return "http://" + listen(t, func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, text)
		})
	}
	socks := func(text string) string {
		return "socks5://" + listen(t, func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			time.Sleep(100 * time.Millisecond) // a connection that closes at once can lose the answer
		})
	}
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	drip := listen(t, func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, "\x05"); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond) // as a slow proxy does
		}
	})
	closed := httptest.NewServer(nil)
	closed.Close()
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		address string
		kind    error
		says    []string
	}{
		"forbids":                {answers("HTTP/1.1 403 " + canary + "\r\n\r\n" + canary), ErrInvalid, []string{"phase proxy", "403 Forbidden", "git.test:443"}},
		"cannot reach it":        {answers("HTTP/1.1 502 " + canary + "\r\n\r\n"), ErrUnreachable, []string{"phase proxy", "502"}},
		"is none":                {answers("SSH-2.0-" + canary + "\r\n\r\n"), ErrInvalid, []string{"phase proxy", "not from an http proxy"}},
		"hangs up":               {answers(""), ErrUnreachable, []string{"phase proxy", "closed the connection"}},
		"has an endless header":  {answers("HTTP/1.1 200 OK\r\nX: " + strings.Repeat(canary, 10_000)), ErrInvalid, []string{"phase proxy", "more than"}},
		"is silent":              {"http://" + silent, ErrUnreachable, []string{"phase proxy", "1s"}},
		"is silent, in socks5":   {"socks5://" + silent, ErrUnreachable, []string{"phase proxy", "1s"}},
		"is silent, in https":    {"https://" + silent, ErrUnreachable, []string{"phase proxy", "1s"}},
		"drips":                  {"http://" + drip, ErrUnreachable, []string{"phase proxy", "1s"}},
		"is away":                {closed.URL, ErrUnreachable, []string{"phase dial", "connection refused"}},
		"is away, in socks5":     {strings.Replace(closed.URL, "http", "socks5", 1), ErrUnreachable, []string{"phase dial", "connection refused"}},
		"has no such name":       {"http://no-such-proxy.invalid:1", ErrUnreachable, []string{"phase dial", "no-such-proxy.invalid"}},
		"is not trusted":         {ca.serve(http.NotFoundHandler()).URL, ErrUnreachable, []string{"phase proxy", "not trusted", "ca.crt in the proxy's Secret"}},
		"speaks no TLS":          {strings.Replace(answers(""), "http", "https", 1), ErrUnreachable, []string{"phase proxy", "TLS"}},
		"speaks no socks":        {socks("HTTP/1.1 400 " + canary), ErrUnreachable, []string{"phase proxy"}},
		"refuses, in socks5":     {socks("\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"), ErrUnreachable, []string{"phase proxy", "not allowed", "git.test:443"}},
		"wants another password": {socks("\x05\xff"), ErrAuthentication, []string{"phase proxy", "proxy's Secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{
				URL: "https://git.test/repo.git", Auth: secret, Timeout: time.Second,
				Proxy: mustProxy(t, ProxySecret{Address: c.address, Username: "robot", Password: canary}),
			})
			wantError(t, err, c.kind, c.says...)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// security.md 7: for ssh, too, the wait for a proxy ends at the timeout, and the connection is
// closed.
func TestSlowProxyForSSH(t *testing.T) {
	host := newHostKey(t)
	for _, scheme := range []string{"http", "https", "socks5"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{})
			silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c); close(closed) })
			identity, _ := newIdentity(t, "")
			_, err := newMirrors(t).Fetch(t.Context(), Remote{
				URL: "git@git.test:repo.git", Auth: sshAuth(t, identity, knownHost("git.test:22", host)), Timeout: time.Second,
				Proxy: mustProxy(t, ProxySecret{Address: scheme + "://" + silent, Username: "robot", Password: canary}),
			})
			wantError(t, err, ErrUnreachable, "phase proxy", "1s")
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Error("the connection stays open")
			}
		})
	}
}

// The CA for the repository's server is not trusted for a proxy, and vice versa.
func TestProxyHasItsOwnCA(t *testing.T) {
	one, two := newAuthority(t), newAuthority(t)
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	secure := one.serve(proxyTo(t, s.proxy.URL))
	p := newHTTPSProxy(t, two, "")
	mustFetch(t, newMirrors(t), Remote{URL: secure.URL + "/repo.git", CA: one.pem, Proxy: mustProxy(t, ProxySecret{Address: p.address, CA: two.pem})})
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: secure.URL + "/repo.git", CA: one.pem, Proxy: mustProxy(t, ProxySecret{Address: p.address, CA: one.pem})})
	wantError(t, err, ErrUnreachable, "phase proxy", "not trusted")
	_, err = newMirrors(t).Fetch(t.Context(), Remote{URL: secure.URL + "/repo.git", CA: two.pem, Proxy: mustProxy(t, ProxySecret{Address: p.address, CA: two.pem})})
	wantError(t, err, ErrUnreachable, "phase TLS", "not trusted")
}
