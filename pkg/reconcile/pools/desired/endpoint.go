package desired

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// Endpoint is the API server as nodes reach it.
type Endpoint struct {
	Server  string
	Cluster *clientcmdapi.Cluster
	// template is a kubeconfig with templateToken.
	template string
}

// templateToken is a placeholder for a token.
const templateToken = "aaaaaa.bbbbbbbbbbbbbbbb"

// bootstrapPattern is what bootstrap tokens look like.
var bootstrapPattern = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// plain reports whether a bootstrap token needs no quotes in YAML, like templateToken. It needs
// them if YAML would parse the token as a number.
func plain(token string) bool {
	return bootstrapPattern.MatchString(token) && strings.Trim(token, "0123456789.e") != ""
}

// contextName names cluster, user and context of a kubeconfig, as with operating-system-manager: an
// equivalent kubeconfig remains.
const contextName = "c"

// Kubeconfig is the kubelet's bootstrap kubeconfig with a token.
func (e Endpoint) Kubeconfig(token string) (string, error) {
	// Only the token differs between pools; one with other characters would have to be quoted.
	if plain(token) && e.template != "" {
		return strings.Replace(e.template, templateToken, token, 1), nil
	}
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{contextName: e.Cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{contextName: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{contextName: {Cluster: contextName, AuthInfo: contextName}},
		CurrentContext: contextName,
	})
	if err != nil {
		return "", fmt.Errorf("encoding a bootstrap kubeconfig: %w", err)
	}
	return string(kubeconfig), nil
}

// CachedEndpoint is what cluster-info said when it was last read.
type CachedEndpoint struct {
	mu       sync.Mutex
	text     string
	endpoint *Endpoint
}

// Last returns the endpoint that was last made of cluster-info, nil for none.
func (k *CachedEndpoint) Last() *Endpoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.endpoint
}

// findByText returns the endpoint that was made of the same text of cluster-info, nil if the text
// has changed.
func (k *CachedEndpoint) findByText(text string) *Endpoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.text != text {
		return nil
	}
	return k.endpoint
}

func (k *CachedEndpoint) storeEndpoint(text string, e Endpoint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text, k.endpoint = text, &e
}

// Endpoints reads where nodes reach the API server.
type Endpoints struct {
	// ClusterInfo reads the ConfigMap kube-public/cluster-info, and Worker the service
	// kubernetes if the ConfigMap does not exist.
	ClusterInfo, Worker client.Reader
	// CA is the PEM bundle for nodes if there is no cluster-info.
	CA string
	// OverrideServer replaces the API server's URL.
	OverrideServer string
	// Cached remembers what cluster-info said.
	Cached *CachedEndpoint
}

// Get reads cluster-info, and only if that does not exist the endpoints of the service
// kubernetes.
func (s Endpoints) Get(ctx context.Context) (Endpoint, error) {
	key := types.NamespacedName{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	var cm corev1.ConfigMap
	err := s.ClusterInfo.Get(ctx, key, &cm)
	if apierrors.IsNotFound(err) {
		e, err := s.ofService(ctx)
		if err != nil {
			return e, err
		}
		return s.applyOverrides(e)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	text := cm.Data[kubeclient.ClusterInfoKey]
	if cached := s.Cached.findByText(text); cached != nil {
		return *cached, nil
	}
	info, err := kubeclient.ClusterInfo(&cm)
	if err != nil {
		return Endpoint{}, fault.Reject("ConfigMap %s: %w", key, err)
	}
	e, err := s.applyOverrides(Endpoint{Server: info.Server, Cluster: info})
	if err == nil {
		s.Cached.storeEndpoint(text, e)
	}
	return e, err
}

// applyOverrides applies the flags that override the endpoint for nodes.
func (s Endpoints) applyOverrides(e Endpoint) (Endpoint, error) {
	if s.OverrideServer != "" {
		e.Server = s.OverrideServer
	}
	if e.Server == "" {
		return e, fault.Reject("the address of the API server for nodes is unknown: the cluster in ConfigMap kube-public/cluster-info has no server: set it there, or with --override-bootstrap-kubelet-apiserver")
	}
	overridden := e.Cluster.DeepCopy()
	overridden.Server = e.Server
	e.Cluster = overridden
	var err error
	e.template, err = e.Kubeconfig(templateToken)
	return e, err
}

// ofService finds the first ready address of the service kubernetes.
func (s Endpoints) ofService(ctx context.Context) (Endpoint, error) {
	var slices discoveryv1.EndpointSliceList
	if err := s.Worker.List(ctx, &slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		return Endpoint{}, fmt.Errorf("listing the EndpointSlices of service default/kubernetes: %w", err)
	}
	for _, slice := range slices.Items {
		port := httpsPort(slice)
		if port == "" {
			continue
		}
		for _, ep := range slice.Endpoints {
			if ep.Conditions.Ready == nil || !*ep.Conditions.Ready || len(ep.Addresses) == 0 {
				continue
			}
			if _, err := netip.ParseAddr(ep.Addresses[0]); err != nil {
				continue
			}
			server := (&url.URL{Scheme: "https", Host: net.JoinHostPort(ep.Addresses[0], port)}).String()
			return Endpoint{Server: server, Cluster: &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte(s.CA)}}, nil
		}
	}
	return Endpoint{}, fault.Await("the address of the API server for nodes is unknown: ConfigMap kube-public/cluster-info does not exist, and service default/kubernetes has no ready endpoint with a port https")
}

func httpsPort(s discoveryv1.EndpointSlice) string {
	for _, p := range s.Ports {
		if p.Name != nil && *p.Name == "https" && p.Port != nil {
			return strconv.Itoa(int(*p.Port))
		}
	}
	return ""
}
