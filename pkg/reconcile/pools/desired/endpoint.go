package desired

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// Endpoints reads where nodes reach the API server.
type Endpoints struct {
	// ClusterInfo reads the ConfigMap kube-public/cluster-info, and Worker the service
	// kubernetes if the ConfigMap does not exist.
	ClusterInfo, Worker client.Reader
	// CA is the PEM bundle for nodes if there is no cluster-info.
	CA string
	// OverrideServer replaces the API server's URL.
	OverrideServer string
	// Last has what cluster-info said when it was last read, nil for nothing.
	Last *atomic.Pointer[clientcmdapi.Cluster]
}

// Get reads cluster-info, and only if that does not exist the endpoints of the service
// kubernetes.
func (s Endpoints) Get(ctx context.Context) (*clientcmdapi.Cluster, error) {
	key := types.NamespacedName{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	var cm corev1.ConfigMap
	err := s.ClusterInfo.Get(ctx, key, &cm)
	if apierrors.IsNotFound(err) {
		e, err := s.ofService(ctx)
		if err != nil {
			return nil, err
		}
		return e, s.applyOverrides(e)
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	e, err := kubeclient.ClusterInfo(&cm)
	if err != nil {
		return nil, fault.Reject("ConfigMap %s: %w", key, err)
	}
	if err := s.applyOverrides(e); err != nil {
		return nil, err
	}
	s.Last.Store(e)
	return e, nil
}

// applyOverrides applies the flags that override the endpoint for nodes.
func (s Endpoints) applyOverrides(e *clientcmdapi.Cluster) error {
	if s.OverrideServer != "" {
		e.Server = s.OverrideServer
	}
	if e.Server == "" {
		return fault.Reject("the address of the API server for nodes is unknown: the cluster in ConfigMap kube-public/cluster-info has no server: set it there, or with --override-bootstrap-kubelet-apiserver")
	}
	return nil
}

// ofService finds the first ready address of the service kubernetes.
func (s Endpoints) ofService(ctx context.Context) (*clientcmdapi.Cluster, error) {
	var slices discoveryv1.EndpointSliceList
	if err := s.Worker.List(ctx, &slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		return nil, fmt.Errorf("listing the EndpointSlices of service default/kubernetes: %w", err)
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
			return &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte(s.CA)}, nil
		}
	}
	return nil, fault.Await("the address of the API server for nodes is unknown: ConfigMap kube-public/cluster-info does not exist, and service default/kubernetes has no ready endpoint with a port https")
}

func httpsPort(s discoveryv1.EndpointSlice) string {
	for _, p := range s.Ports {
		if p.Name != nil && *p.Name == "https" && p.Port != nil {
			return strconv.Itoa(int(*p.Port))
		}
	}
	return ""
}
