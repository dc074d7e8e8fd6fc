package rehearsal_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// The publishers that our profiles download from, and a mirror of Debian in place of
// Ubuntu's. GitHub sends its downloads on to another host.
const (
	kubernetesName = "dl.k8s.io"
	dockerName     = "download.docker.com"
	githubName     = "github.com"
	assetsName     = "release-assets.githubusercontent.com"
	debianName     = "deb.debian.test"
)

var publisherNames = []string{kubernetesName, dockerName, githubName, assetsName, debianName}

// publishers are the servers with what a machine downloads: the kubelet and containerd
// that were built for the tests, packages of Debian, and stand-ins for what no step of
// ours runs.
type publishers struct {
	ca  string // what machines have to trust, as PEM
	key string // with which both repositories of packages are signed, armored
	// files by host and path.
	files map[string][]byte

	mu     sync.Mutex
	faults []*fault
}

func newPublishers(ctx context.Context) (*publishers, error) {
	p := &publishers{files: map[string][]byte{}}
	if err := p.offerBinaries(); err != nil {
		return nil, err
	}
	signer, err := newSigner()
	if err != nil {
		return nil, err
	}
	p.key = signer.armored
	p.files[dockerName+"/linux/ubuntu/gpg"] = []byte(signer.armored)
	containerd, err := containerdPackage(ctx)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		if err := p.offerPackages(ctx, repository{
			host: debianName, root: "/debian", suite: image, component: "main", folder: os.Getenv(rootEnv+image) + "/packages", signer: signer,
		}); err != nil {
			return nil, err
		}
		if err := p.offerPackages(ctx, repository{
			host: dockerName, root: "/linux/ubuntu", suite: image, component: "stable", folder: containerd, signer: signer,
		}); err != nil {
			return nil, err
		}
	}
	return p, p.listen()
}

// offerBinaries adds what is downloaded by version. Of the names of versions only the
// ends of paths are known here, so that a profile may raise them.
func (p *publishers) offerBinaries() error {
	kubelet, err := os.ReadFile(os.Getenv(kubeletEnv))
	if err != nil {
		return err
	}
	p.files[kubernetesName+"/kubelet"] = kubelet
	for _, name := range []string{"kubeadm", "kubectl"} {
		p.files[kubernetesName+"/"+name] = program(name)
	}
	p.files[githubName+"/containernetworking/plugins"] = archive("bridge", "host-local", "loopback", "portmap")
	p.files[githubName+"/kubernetes-sigs/cri-tools"] = archive("crictl")
	return nil
}

// find returns what a publisher has at a path.
func (p *publishers) find(host, file string) []byte {
	if host == assetsName {
		host = githubName
	}
	if of, ok := strings.CutSuffix(file, ".sha256"); ok {
		content := p.find(host, of)
		if content == nil {
			return nil
		}
		sum := sha256.Sum256(content)
		return []byte(hex.EncodeToString(sum[:]) + "  " + path.Base(of) + "\n")
	}
	words := strings.Split(file, "/")
	switch {
	case host == kubernetesName && strings.Contains(file, "/bin/linux/"):
		return p.files[host+"/"+path.Base(file)]
	case host == githubName && len(words) > 2:
		return p.files[host+"/"+words[1]+"/"+words[2]]
	}
	return p.files[host+file]
}

func (p *publishers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	broken := take(p.faults, r)
	p.mu.Unlock()
	content := p.find(r.Host, r.URL.Path)
	switch {
	case broken != nil:
		broken.answer(w, r)
	case content == nil:
		http.NotFound(w, r)
	case r.Host == githubName:
		http.Redirect(w, r, "https://"+assetsName+r.URL.Path, http.StatusFound)
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// breaks lets something go wrong from now on.
func (p *publishers) breaks(what fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &what)
}

// unbroken counts the faults that have not happened.
func (p *publishers) unbroken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return left(p.faults)
}

// listen serves all names with a certificate of their own authority.
func (p *publishers) listen() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "publishers"}, DNSNames: publisherNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	p.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	l, err := net.Listen("tcp", publishersAddress+":443")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: p, ErrorLog: log.New(io.Discard, "", 0), // machines that are switched off
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}
	go func() { _ = server.ServeTLS(l, "", "") }() // until the tests end
	return nil
}

// program is a stand-in that says what it was called with.
func program(name string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nprintf '%%s\\n' %q \"$@\"\n", name)
}

// archive is a tarball of programs, made by somebody with another user id.
func archive(names ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range names {
		content := program(name)
		h := &tar.Header{Name: "./" + name, Typeflag: tar.TypeReg, Mode: 0o755, Uid: 1001, Gid: 118, Size: int64(len(content))}
		if err := w.WriteHeader(h); err != nil {
			panic(err) // memory does not fail
		}
		if _, err := w.Write(content); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
