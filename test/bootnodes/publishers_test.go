package bootnodes_test

import (
	"bytes"
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
	"time"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
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

// publishers are the servers from which a machine downloads: a kubelet and containerd, packages
// of Debian, and stand-ins for packages that no step of ours executes.
type publishers struct {
	ca  string // what machines have to trust, as PEM
	key string // with which both repositories of packages are signed, armored
	// files by host and path.
	files    map[string][]byte
	troubles troubles
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
	// yum's first requests to a repository; the stand-in for yum makes no others.
	p.files[dockerName+"/linux/rhel/gpg"] = []byte(signer.armored)
	p.files[dockerName+"/linux/rhel/9/x86_64/stable/repodata/repomd.xml"] = []byte("<repomd/>\n")
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

// offerBinaries adds the downloads that have a version in their path. It knows only the ends of
// these paths, so that a profile can raise versions.
func (p *publishers) offerBinaries() error {
	kubelet, err := os.ReadFile(os.Getenv(kubeletEnv)) // the real kubelet in a soak, otherwise ./standin
	if err != nil {
		return err
	}
	p.files[kubernetesName+"/kubelet"] = kubelet
	for _, name := range []string{"kubeadm", "kubectl"} {
		p.files[kubernetesName+"/"+name] = echoing(name)
	}
	p.files[githubName+"/containernetworking/plugins"] = nodefixture.Archive(echoing, "bridge", "host-local", "loopback", "portmap")
	p.files[githubName+"/kubernetes-sigs/cri-tools"] = nodefixture.Archive(echoing, "crictl")
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
	content := p.find(r.Host, r.URL.Path)
	wrong := p.troubles.of(r.RemoteAddr).Take(r)
	switch {
	case wrong != nil:
		wrong(w, r, content)
	case content == nil:
		http.NotFound(w, r)
	case r.Host == githubName:
		http.Redirect(w, r, "https://"+assetsName+r.URL.Path, http.StatusFound)
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// listen serves all names with a certificate of their own authority.
func (p *publishers) listen() error {
	certificate, authority, err := selfSigned("publishers", publisherNames...)
	if err != nil {
		return err
	}
	p.ca = authority
	l, err := net.Listen("tcp", publishersAddress+":443")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: p, ErrorLog: log.New(io.Discard, "", 0), // machines that are switched off
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
	}
	go func() { _ = server.ServeTLS(l, "", "") }() // until the tests end
	return nil
}

// selfSigned makes a certificate that is its own authority, and returns that as PEM.
func selfSigned(name string, hosts ...string) (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// echoing returns a stand-in that prints its arguments.
func echoing(name string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\nprintf '%%s\\n' %q \"$@\"\n", name)
}
