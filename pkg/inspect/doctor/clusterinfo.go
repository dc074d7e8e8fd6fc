package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

const checkClusterInfo = "cluster-info"

// examineClusterInfo checks what nodes learn about the API server.
func (w *examination) examineClusterInfo(ctx context.Context) {
	key := types.NamespacedName{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	name := "ConfigMap " + key.String()
	var cm corev1.ConfigMap
	err := w.Worker.Client.Get(ctx, key, &cm)
	f := Finding{Check: checkClusterInfo, Cluster: w.clusterLabel(w.Worker), Level: Problem}
	if apierrors.IsNotFound(err) {
		f.Level = Warning
		f.Found = name + " does not exist: nodes get the first endpoint of service default/kubernetes, and the CA of the controller's kubeconfig"
		f.Remedy = "if nodes reach the API server by another address, create it, as kubeadm init phase bootstrap-token does"
		w.addFinding(f)
		return
	}
	if err != nil {
		w.addUnreadable(checkClusterInfo, w.Worker, name, err)
		return
	}
	info, err := kubeclient.ClusterInfo(&cm)
	if err != nil {
		f.Found = fmt.Sprintf("%s: %v", name, err)
		f.Remedy = "write a kubeconfig for nodes: one cluster with server and certificate-authority-data, and no user"
		w.addFinding(f)
		return
	}
	f.Found, f.Remedy = w.diagnoseServer(name, info.Server)
	if f.Found == "" {
		f.Level, f.Found, f.Remedy = w.diagnoseCA(name, info.CertificateAuthorityData)
	}
	if f.Found == "" {
		f.Level, f.Found = OK, "nodes join "+info.Server
	}
	w.addFinding(f)
}

// diagnoseServer describes a problem with the address that nodes receive, and its remedy.
func (w *examination) diagnoseServer(name, server string) (found, do string) {
	u, err := url.Parse(server)
	switch {
	case server == "":
		return name + " names no server", "name it there; if --override-bootstrap-kubelet-apiserver names it, ignore this"
	case err != nil || u.Hostname() == "":
		return fmt.Sprintf("%s: server %q is not a URL", name, server), "write a URL such as https://api.example.com:6443"
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return fmt.Sprintf("%s: server %s is the address of the node itself", name, net.JoinHostPort(u.Hostname(), u.Port())),
			"name the address by which nodes reach the API server; if --override-bootstrap-kubelet-apiserver names it, ignore this"
	}
	return "", ""
}

// diagnoseCA describes a problem with the CA that nodes trust, and its remedy.
func (w *examination) diagnoseCA(name string, text []byte) (level Level, found, do string) {
	certs := parseCertificates(text)
	if len(certs) == 0 {
		return Warning, name + " has no CA: nodes trust the CAs of their operating system", "add certificate-authority-data, unless the API server's certificate is from a public CA"
	}
	pool, good := x509.NewCertPool(), false
	for _, c := range certs {
		pool.AddCert(c)
		good = good || w.apiServerTime().Before(c.NotAfter)
	}
	if !good {
		return Problem, fmt.Sprintf("%s: its CA expired on %s", name, certs[0].NotAfter.UTC().Format(time.DateOnly)), "put the new CA there: nodes reject the API server"
	}
	if len(w.Worker.seen.chain) == 0 {
		return "", "", ""
	}
	between := x509.NewCertPool()
	for _, c := range w.Worker.seen.chain[1:] {
		between.AddCert(c)
	}
	_, err := w.Worker.seen.chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: w.apiServerTime(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return Warning, name + ": its CA did not sign the certificate with which the API server answered here", "if nodes reach it by the same address, put the right CA there: they reject the API server"
	}
	return "", "", ""
}

// parseCertificates parses the readable certificates of a PEM text.
func parseCertificates(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
}
