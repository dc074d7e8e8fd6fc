package delivery

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/gittest/gitssh"
)

// security.md 14: every kind of authentication fails in every phase, and no condition, event,
// metric or log line contains a credential. Each failure has a reason and says what to do, and
// the corrected credential works without a restart.
func TestCredentials(t *testing.T) {
	s := newSystem(t)
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	guarded, proxy, shell := newGuardedServer(t, s.Git.URL), newConnectProxy(t), newShellServer(t, s.Git.Work)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := free.Addr().String()
	free.Close()

	user := map[string]string{"username": e2e.Canary, "password": e2e.Canary}
	with := func(base map[string]string, more ...string) map[string]string {
		out := maps.Clone(base)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	mutual := map[string]string{"ca.crt": guarded.ca, "tls.crt": guarded.cert, "tls.key": guarded.key}
	key := map[string]string{"identity": shell.identity, "known_hosts": shell.knownHosts}
	stranger, strangerLine := e2e.NewIdentity(t, "")
	sealed, _ := e2e.NewIdentity(t, e2e.Canary)
	app := map[string]string{"ca.crt": guarded.ca, "githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": newRSA(t), "githubAppBaseURL": guarded.URL}

	s.Source()
	s.Start("--metrics-address", metrics)
	s.Ready(commit)
	for i, c := range []struct {
		name          string
		url           string
		secret, proxy map[string]string
		reason        string // "" is ready
		says          string
	}{
		{"a wrong password", guarded.url, with(mutual, "username", e2e.Canary, "password", e2e.Canary), nil, api.ReasonAuthenticationFailed, "401"},
		{"a wrong token", guarded.url, with(mutual, "bearerToken", e2e.Canary), nil, api.ReasonAuthenticationFailed, "401"},
		{"no client certificate", guarded.url, with(user, "ca.crt", guarded.ca), nil, api.ReasonAuthenticationFailed, "phase TLS: the server requires a client certificate"},
		{"another CA", guarded.url, with(user, "ca.crt", guarded.otherCA), nil, api.ReasonUnreachable, "phase TLS: the server's certificate is not trusted"},
		{"a port that nobody listens at", "https://127.0.0.1:1/osps.git", user, nil, api.ReasonUnreachable, "phase dial"},
		{"a cloud's metadata service", "http://169.254.169.254/osps.git", user, nil, api.ReasonSourceInvalid, "refusing to connect"},
		{"a token with a line break", guarded.url, map[string]string{"bearerToken": e2e.Canary + "\n"}, nil, "DependencyNotReady", "Secret kube-system/git-6: bearerToken contains a space"},
		{"an app that GitHub does not know", guarded.url, app, nil, api.ReasonAuthenticationFailed, "phase token: GitHub answers 401"},
		{"an app by numbers that are none", guarded.url, with(app, "githubAppInstallationID", e2e.Canary), nil, "DependencyNotReady", "githubAppInstallationID is not a number"},
		{"a proxy that wants another password", guarded.url, mutual, with(user, "address", proxy.url), api.ReasonAuthenticationFailed, "phase proxy: the proxy answers 407"},
		{"a proxy that is away", guarded.url, mutual, with(user, "address", "socks5://127.0.0.1:1"), api.ReasonUnreachable, "phase dial"},
		{"a proxy with a password in its address", guarded.url, mutual, map[string]string{"address": "http://u:" + e2e.Canary + "@127.0.0.1:1"}, "DependencyNotReady", "spec.git.proxySecretRef: Secret kube-system/proxy-11: address contains a user"},
		{"metadata behind the proxy", "http://169.254.169.254/osps.git", user, map[string]string{"address": proxy.url, "username": "robot", "password": e2e.Canary + "-right"}, api.ReasonSourceInvalid, "refusing to connect"},
		{"ssh without a Secret", shell.url, nil, nil, api.ReasonSourceInvalid, "needs a Secret with the keys identity and known_hosts"},
		{"a host that is unknown", shell.url, with(key, "known_hosts", "git.example.com "+strangerLine), nil, api.ReasonHostKeyRefused, "the host is unknown"},
		{"a host key that has changed", shell.url, with(key, "known_hosts", shell.address+" "+strangerLine), nil, api.ReasonHostKeyRefused, "the host key has changed"},
		{"a key that is not let in", shell.url, with(key, "identity", stranger), nil, api.ReasonAuthenticationFailed, "phase handshake: the server does not accept the key"},
		{"an encrypted key, a wrong password", shell.url, with(key, "identity", sealed, "password", e2e.Canary+"x"), nil, "DependencyNotReady", "password does not decrypt identity"},
		{"a repository that is not there", shell.url + "x", key, nil, api.ReasonReferenceNotFound, "the repository does not exist"},
		{"a token, certificates, CA and proxy", guarded.url, with(mutual, "bearerToken", e2e.Canary+"-right"), map[string]string{"address": proxy.url, "username": "robot", "password": e2e.Canary + "-right"}, "", ""},
		{"ssh", shell.url, key, nil, "", ""},
	} {
		s.Run(c.name, func(t *testing.T) {
			git := map[string]any{"url": c.url, "timeout": "30s"}
			for field, data := range map[string]map[string]string{"secretRef": c.secret, "proxySecretRef": c.proxy} {
				if data == nil {
					continue
				}
				name := fmt.Sprintf("%s-%d", map[string]string{"secretRef": "git", "proxySecretRef": "proxy"}[field], i)
				git[field] = map[string]any{"name": name}
				if err := s.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name}, StringData: data}); client.IgnoreAlreadyExists(err) != nil {
					t.Fatal(err)
				}
			}
			s.Source(func(spec map[string]any) { spec["git"] = git })
			if c.reason == "" {
				s.Eventually("the repository to be read at "+c.url, func() error {
					ps := s.ProfileSource()
					if ps.Status.ObservedGeneration != ps.Generation {
						return errors.New("not reconciled yet")
					}
					return nil
				})
				s.Ready(commit)
				return
			}
			cond := s.WaitRejected(c.reason, c.says)
			if strings.Contains(cond.Message, e2e.Canary) {
				t.Errorf("the condition tells a credential: %s", cond.Message)
			}
			if s.Inventory()["osp-a"] != "v1.0.0" {
				t.Errorf("the inventory is %v", s.Inventory())
			}
		})
	}
	s.Run("a Secret that is corrected", func(t *testing.T) {
		name := "git-corrected"
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name}, StringData: with(key, "known_hosts", "git.example.com "+strangerLine)}
		if err := s.Client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		s.Source(func(spec map[string]any) {
			spec["git"] = map[string]any{"url": shell.url, "timeout": "30s", "secretRef": map[string]any{"name": name}}
		})
		s.WaitRejected(api.ReasonHostKeyRefused)
		patch := client.MergeFrom(secret.DeepCopy())
		secret.StringData = key
		if err := s.Client.Patch(t.Context(), secret, patch); err != nil {
			t.Fatal(err)
		}
		s.Ready(commit)
	})
	if proxy.tunnels() == 0 || shell.sessions() == 0 {
		t.Errorf("%d tunnels, %d sessions: the test shows nothing", proxy.tunnels(), shell.sessions())
	}

	profiler, err := http.Get("http://" + metrics + "/debug/pprof/goroutine?debug=2")
	if err != nil {
		t.Fatal(err)
	}
	profiler.Body.Close()
	if profiler.StatusCode != http.StatusNotFound {
		t.Errorf("a profiler, which tells arguments of functions, answers %d", profiler.StatusCode)
	}
	res, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	shown, err := io.ReadAll(res.Body)
	if err != nil || len(shown) < 1000 {
		t.Fatalf("%d bytes of metrics, %v", len(shown), err)
	}
	var events eventsv1.EventList
	if err := s.Client.List(t.Context(), &events, client.InNamespace(e2e.Namespace)); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, e := range events.Items {
		if e.Regarding.Name == "osps" && e.Reason == api.EventSourceFailed {
			told++
		}
	}
	if told < 10 {
		t.Errorf("%d failures were told by events: the test shows nothing", told)
	}
	s.LogMu.Lock()
	log := s.Log.String()
	s.LogMu.Unlock()
	secretLines := secretLinesOf(key, mutual, app, map[string]string{"sealed": sealed, "stranger": stranger})
	for where, text := range map[string]string{"an event": fmt.Sprintf("%+v", events.Items), "the log": log, "a metric": string(shown), "the status": fmt.Sprintf("%+v", s.ProfileSource())} {
		if strings.Contains(text, e2e.Canary) {
			t.Errorf("%s tells a credential: %s", where, e2e.Around(text, e2e.Canary))
		}
		for _, line := range secretLines {
			if strings.Contains(text, line) {
				t.Errorf("%s holds a line of a private key", where)
			}
		}
	}
}

// secretLinesOf are the lines of private keys.
func secretLinesOf(secrets ...map[string]string) []string {
	var lines []string
	for _, s := range secrets {
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if !strings.Contains(s[name], "PRIVATE KEY") {
				continue
			}
			for _, line := range strings.Split(s[name], "\n") {
				if len(line) > 40 && !strings.HasPrefix(line, "-----") {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

// guardedServer is a Git server behind TLS that requires a client certificate and a bearer
// token. Its GitHub API accepts no credential.
type guardedServer struct {
	*httptest.Server
	url                    string
	ca, otherCA, cert, key string
}

func newGuardedServer(t *testing.T, behind string) *guardedServer {
	t.Helper()
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	git := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	g := &guardedServer{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v3/"):
			http.Error(w, "no app, "+e2e.Canary, http.StatusUnauthorized)
		case len(r.TLS.PeerCertificates) == 0:
			// As a server does that wants a certificate for some paths only.
			panic(http.ErrAbortHandler)
		case r.Header.Get("Authorization") != "Bearer "+e2e.Canary+"-right":
			http.Error(w, "not "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		default:
			git.ServeHTTP(w, r)
		}
	}))
	g.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	g.StartTLS()
	t.Cleanup(g.Close)
	g.url = g.URL + to.Path
	pair := g.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	g.cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	g.key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	g.ca = g.cert // it is signed by itself
	g.otherCA = caOfTest(t)
	return g
}

// caOfTest is a certificate that signed nothing.
func caOfTest(t *testing.T) string {
	t.Helper()
	return string(e2e.CertificateUntil(t, time.Time{}))
}

// connectProxy is a proxy that wants a password.
type connectProxy struct {
	url  string
	made chan struct{}
}

func (p *connectProxy) tunnels() int { return len(p.made) }

func newConnectProxy(t *testing.T) *connectProxy {
	t.Helper()
	p := &connectProxy{made: make(chan struct{}, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		if r.Method != http.MethodConnect || user != "robot" || password != e2e.Canary+"-right" {
			http.Error(w, e2e.Canary, http.StatusProxyAuthRequired)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, e2e.Canary, http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		select {
		case p.made <- struct{}{}:
		default:
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(server.CloseClientConnections)
	p.url = server.URL
	return p
}

// shellServer is a Git server over ssh.
type shellServer struct {
	url, identity, knownHosts string
	address                   string // as known_hosts has it
	seen                      chan struct{}
}

func (s *shellServer) sessions() int { return len(s.seen) }

func newShellServer(t *testing.T, work string) *shellServer {
	t.Helper()
	s := &shellServer{seen: make(chan struct{}, 1000)}
	var public string
	s.identity, public = e2e.NewIdentity(t, "")
	server := gitssh.New(t, func(content string) error {
		if content != strings.TrimSpace(public) {
			return errors.New("no, " + e2e.Canary)
		}
		select {
		case s.seen <- struct{}{}:
		default:
		}
		return nil
	})
	gittest.Git(t, server.Root, "clone", "-q", "--bare", work, "osps.git")
	s.address, s.url, s.knownHosts = server.Address, server.URL+"/osps.git", server.KnownHosts()
	return s
}

func newRSA(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}
