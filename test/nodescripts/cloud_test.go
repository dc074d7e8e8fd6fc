package nodescripts_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

const (
	apiHost   = "api.cluster.test"
	apiPort   = "6443"
	proxyHost = "proxy.test"
	proxyPort = "3128"
)

// downloadHosts are the publishers' names. GitHub sends its downloads on to another
// host.
var downloadHosts = []string{"dl.k8s.io", "download.docker.com", "github.com", assetsHost}

const assetsHost = "release-assets.githubusercontent.com"

// mirrorHost serves all publishers below its own paths.
const mirrorHost = "mirror.test"

// hostsFile maps every name to loopback, the address of the servers.
func hostsFile() string {
	return "127.0.0.1 localhost " + strings.Join(append([]string{apiHost, proxyHost, mirrorHost}, downloadHosts...), " ") + "\n"
}

// authority is a certificate authority with a server certificate for every name.
type authority struct {
	once   sync.Once
	name   string
	pem    string
	server tls.Certificate
	err    error
}

// clusterCA signs the API server, publishers the download hosts; no client trusts strangers.
// They are created once and shared by all nodes.
var (
	clusterCA  = &authority{name: "cluster"}
	publishers = &authority{name: "publishers"}
	strangers  = &authority{name: "cluster"} // it calls itself like the right one
)

func (a *authority) certificate() string {
	a.once.Do(a.make)
	if a.err != nil {
		panic(a.err) // no randomness: nothing here can run
	}
	return a.pem
}

func (a *authority) make() {
	var caKey, key *ecdsa.PrivateKey
	if caKey, a.err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); a.err != nil {
		return
	}
	if key, a.err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); a.err != nil {
		return
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: a.name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		DNSNames: append([]string{apiHost, proxyHost, mirrorHost}, downloadHosts...), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if a.err = err; err != nil {
		return
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	a.err = err
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}))
	a.server = tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}
}

// cloud are the servers that a node can reach: the API server's Secrets and the
// hosts of the downloads.
type cloud struct {
	t   testing.TB
	net *network
	// token is what the API server takes, and secrets what it has: the key
	// cloud-config or kubeconfig of each.
	token   string
	secrets map[string]map[string]string

	api       net.Listener
	downloads *http.Server

	faults nodefixture.Faults

	mu sync.Mutex
	// strangers is the number of connections for which a server, "api" or "downloads", presents
	// an untrusted certificate.
	strangers map[string]int
	requests  []request
	reports   []string // bodies
	matches   []string // annotations of the node
	tunnels   []string // hosts that were asked for through the proxy
}

// request is one that a server has seen.
type request struct{ host, path, authorization string }

func newCloud(t testing.TB, n *network, token string, secrets map[string]map[string]string) *cloud {
	t.Helper()
	clusterCA.certificate()
	publishers.certificate()
	strangers.certificate()
	c := &cloud{t: t, net: n, token: token, secrets: secrets, strangers: map[string]int{}}
	c.listenAPI()
	c.downloads = c.serve(c.tls(n.listen(t, "127.0.0.1:443"), publishers, "downloads"))
	return c
}

// listenAPI lets the API server be there.
func (c *cloud) listenAPI() {
	c.api = c.net.listen(c.t, "127.0.0.1:"+apiPort)
	c.serve(c.tls(c.api, clusterCA, "api"))
}

func (c *cloud) serve(l net.Listener) *http.Server {
	s := &http.Server{Handler: http.HandlerFunc(c.handle), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.Serve(l) }()
	c.t.Cleanup(func() { s.Close() })
	return s
}

func (c *cloud) tls(l net.Listener, a *authority, what string) net.Listener {
	return tls.NewListener(l, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.strangers[what] > 0 {
			c.strangers[what]--
			return &strangers.server, nil
		}
		return &a.server, nil
	}})
}

// stranger makes a server present an untrusted certificate for a number of connections.
func (c *cloud) stranger(what string, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strangers[what] += times
}

// left counts the faults that have not happened.
func (c *cloud) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults.Left() + c.strangers["api"] + c.strangers["downloads"]
}

// seen returns the URLs of the requests, without their scheme.
func (c *cloud) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var urls []string
	for _, r := range c.requests {
		urls = append(urls, r.host+r.path)
	}
	return urls
}

func (c *cloud) handle(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	status, body := http.StatusOK, []byte(nil)
	if host == apiHost {
		if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); ok {
			status, body = c.match(r, name)
		} else if r.Method == http.MethodPatch {
			status, body = c.report(r)
		} else {
			status, body = c.secret(r)
		}
	} else if body = download(host, r.URL.Path); body == nil {
		status, body = http.StatusNotFound, []byte("not found\n")
	}
	if host == "github.com" && status == http.StatusOK {
		w.Header().Set("Location", "https://"+assetsHost+"/github.com"+r.URL.Path)
		status = http.StatusFound
	}
	c.mu.Lock()
	c.requests = append(c.requests, request{host, r.URL.Path, r.Header.Get("Authorization")})
	c.mu.Unlock()
	if wrong := c.faults.Take(r); wrong != nil {
		wrong(w, r, body)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the node has exited
}

// secret is GET /api/v1/namespaces/cloud-init-settings/secrets/NAME.
func (c *cloud) secret(r *http.Request) (int, []byte) {
	if r.Header.Get("Authorization") != "Bearer "+c.token {
		return http.StatusUnauthorized, apiStatus(http.StatusUnauthorized, "Unauthorized")
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/cloud-init-settings/secrets/")
	data := c.secrets[name]
	if !ok || data == nil {
		return http.StatusNotFound, apiStatus(http.StatusNotFound, fmt.Sprintf("secrets %q not found", name))
	}
	return http.StatusOK, secretJSON(name, data)
}

// report is PATCH .../bootreports/NAME by server-side apply.
func (c *cloud) report(r *http.Request) (int, []byte) {
	body, err := io.ReadAll(r.Body)
	want := "/apis/gitops.k8c.io/v1alpha1/namespaces/cloud-init-settings/bootreports/" + accountName
	switch query := r.URL.Query(); {
	case err != nil:
		return http.StatusBadRequest, apiStatus(http.StatusBadRequest, err.Error())
	case r.Header.Get("Authorization") != "Bearer "+c.token, r.URL.Path != want, r.Header.Get("Content-Type") != "application/apply-patch+yaml",
		query.Get("fieldManager") != machineName, query.Get("force") != "true":
		c.t.Errorf("a report for %s as %s with %q", r.URL, r.Header.Get("Content-Type"), r.Header.Get("Authorization"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, string(body))
	return http.StatusOK, []byte("{}")
}

// match is PATCH .../nodes/NAME of one annotation. The certificate of the client is not asked for.
func (c *cloud) match(r *http.Request, name string) (int, []byte) {
	var patch struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&patch)
	text, ok := patch.Metadata.Annotations[api.AnnotationMatch]
	if err != nil || !ok || len(patch.Metadata.Annotations) != 1 || name != machineName || r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		c.t.Errorf("%s %s with %q has %+v: %v", r.Method, r.URL, r.Header.Get("Content-Type"), patch, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.matches = append(c.matches, text)
	return http.StatusOK, []byte("{}")
}

// secretJSON is a Secret as an API server gives it, managed fields and all.
func secretJSON(name string, data map[string]string) []byte {
	encoded, fields := map[string]string{}, map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
		fields["f:"+key] = map[string]any{}
	}
	b, err := json.Marshal(map[string]any{
		"kind": "Secret", "apiVersion": "v1", "type": "Opaque", "data": encoded,
		"metadata": map[string]any{
			"name": name, "namespace": "cloud-init-settings", "resourceVersion": "1",
			"annotations":   map[string]string{"note": `{"cloud-config":"bm90IHRoaXM=","kubeconfig":"bm90IHRoaXM="}`},
			"managedFields": []any{map[string]any{"manager": "osm-gitops", "operation": "Apply", "fieldsV1": map[string]any{"f:data": fields}}},
		},
	})
	if err != nil {
		panic(err)
	}
	return b
}

func apiStatus(code int, message string) []byte {
	return fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`+"\n", message, code)
}

// download returns what a publisher has at a path, nil if nothing.
func download(host, p string) []byte {
	if host == assetsHost || host == mirrorHost {
		host, p, _ = strings.Cut(strings.TrimPrefix(p, "/"), "/")
		p = "/" + p
	}
	if file, ok := strings.CutSuffix(p, ".sha256"); ok {
		content := download(host, file)
		if content == nil {
			return nil
		}
		sum := sha256.Sum256(content)
		if host == "dl.k8s.io" {
			return []byte(hex.EncodeToString(sum[:]))
		}
		return []byte(hex.EncodeToString(sum[:]) + "  " + path.Base(file) + "\n")
	}
	switch {
	case host == "dl.k8s.io" && strings.Contains(p, "/bin/linux/"):
		return program(path.Base(p), strings.Split(p, "/")[1])
	case host == "github.com" && strings.HasPrefix(p, "/containernetworking/plugins/releases/download/"):
		return plugins()
	case host == "github.com" && strings.HasPrefix(p, "/kubernetes-sigs/cri-tools/releases/download/"):
		return crictl()
	case host == "download.docker.com" && strings.HasSuffix(p, "/gpg"):
		return []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n" + strings.Repeat("mQINBFit2ioBEADhWpZ8wvZ6hUTiXOwQHXMAlaFHcPH9hAtr4F1y2+OYdbtMuth\n", 40) + "-----END PGP PUBLIC KEY BLOCK-----\n")
	}
	return nil
}

// program is a binary: it prints its arguments, a line each.
func program(name, version string) []byte {
	return []byte("#!/bin/bash\n# " + name + " " + version + "\n" + strings.Repeat("# nothing to be run\n", 2000) + `printf '%s\n' "$@"` + "\n")
}

// The archives are compressed once: the checksum and the file of each are asked for in every boot.
var (
	plugins = sync.OnceValue(func() []byte { return nodefixture.Archive(archived, "bridge", "host-local", "loopback", "portmap") })
	crictl  = sync.OnceValue(func() []byte { return nodefixture.Archive(archived, "crictl") })
)

// archived is a binary in an archive.
func archived(name string) []byte { return program(name, "archived") }

// away closes the API server's port.
func (c *cloud) away() { c.api.Close() }

// proxy is an HTTP proxy that knows CONNECT only, to the hosts of the downloads and
// the API server.
func (c *cloud) proxy() {
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, port, err := net.SplitHostPort(r.Host)
		if r.Method != http.MethodConnect || err != nil || !slices.Contains(append(downloadHosts, apiHost), host) {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		c.mu.Lock()
		c.tunnels = append(c.tunnels, host)
		c.mu.Unlock()
		var to net.Conn
		c.net.do(func() { to, err = net.Dial("tcp", "127.0.0.1:"+port) })
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		w.WriteHeader(http.StatusOK)
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		ctx, done := context.WithCancel(r.Context())
		go func() { _, _ = io.Copy(to, buffered); done() }()
		go func() { _, _ = io.Copy(from, to); done() }()
		<-ctx.Done()
	})}
	l := c.net.listen(c.t, "127.0.0.1:"+proxyPort)
	go func() { _ = s.Serve(l) }()
	c.t.Cleanup(func() { s.Close() })
}
