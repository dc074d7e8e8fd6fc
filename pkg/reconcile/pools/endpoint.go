package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// endpoint is the API server as nodes reach it.
type endpoint struct {
	server  string
	cluster *clientcmdapi.Cluster
	// template is a kubeconfig with templateToken.
	template string
}

// templateToken stands where a token belongs.
const templateToken = "aaaaaa.bbbbbbbbbbbbbbbb"

// bootstrapPattern is what bootstrap tokens look like.
var bootstrapPattern = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// plain tells whether YAML needs no quotes around a bootstrap token, as around
// templateToken: it does where the token reads as a number.
func plain(token string) bool {
	return bootstrapPattern.MatchString(token) && strings.Trim(token, "0123456789.e") != ""
}

// contextName names cluster, user and context of a kubeconfig (contract: section 8.4).
const contextName = "c"

// kubeconfig is the kubelet's bootstrap kubeconfig with a token.
func (e endpoint) kubeconfig(token string) (string, error) {
	if plain(token) && e.template != "" {
		return strings.Replace(e.template, templateToken, token, 1), nil
	}
	b, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{contextName: e.cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{contextName: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{contextName: {Cluster: contextName, AuthInfo: contextName}},
		CurrentContext: contextName,
	})
	if err != nil {
		return "", fmt.Errorf("encoding a bootstrap kubeconfig: %w", err)
	}
	return string(b), nil
}

// knownEndpoint is what was made of cluster-info last.
type knownEndpoint struct {
	text string
	endpoint
}

// endpoint reads cluster-info, and only where that does not exist the endpoints
// of the service kubernetes.
func (r *Reconciler) endpoint(ctx context.Context) (endpoint, error) {
	key := types.NamespacedName{Namespace: "kube-public", Name: "cluster-info"}
	var cm corev1.ConfigMap
	err := r.ClusterInfo.Get(ctx, key, &cm)
	var e endpoint
	switch {
	case apierrors.IsNotFound(err):
		if e, err = r.serviceEndpoint(ctx); err != nil {
			return e, err
		}
	case err != nil:
		return e, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	default:
		text := cm.Data[kubeclient.ClusterInfoKey]
		if known := r.known.Load(); known != nil && known.text == text {
			return known.endpoint, nil
		}
		info, err := kubeclient.ClusterInfo(&cm)
		if err != nil {
			return e, fault.Refuse("ConfigMap %s: %w", key, err)
		}
		e, err = r.overridden(endpoint{server: info.Server, cluster: info})
		if err == nil {
			r.known.Store(&knownEndpoint{text: text, endpoint: e})
		}
		return e, err
	}
	return r.overridden(e)
}

// overridden is an endpoint as nodes are told it.
func (r *Reconciler) overridden(e endpoint) (endpoint, error) {
	if r.OverrideServer != "" {
		e.server = r.OverrideServer
	}
	if e.server == "" {
		return e, fault.Refuse("nodes cannot be told where the API server is: the cluster in ConfigMap kube-public/cluster-info has no server: name it there, or with --override-bootstrap-kubelet-apiserver")
	}
	c := e.cluster.DeepCopy()
	c.Server = e.server
	e.cluster = c
	var err error
	e.template, err = e.kubeconfig(templateToken)
	return e, err
}

// serviceEndpoint finds the first ready address of the service kubernetes
// (contract: section 8.2).
func (r *Reconciler) serviceEndpoint(ctx context.Context) (endpoint, error) {
	var slices discoveryv1.EndpointSliceList
	if err := r.Worker.Live.List(ctx, &slices, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		return endpoint{}, fmt.Errorf("listing the EndpointSlices of service default/kubernetes: %w", err)
	}
	for _, s := range slices.Items {
		port := httpsPort(s)
		if port == "" {
			continue
		}
		for _, ep := range s.Endpoints {
			if ep.Conditions.Ready == nil || !*ep.Conditions.Ready || len(ep.Addresses) == 0 {
				continue
			}
			if _, err := netip.ParseAddr(ep.Addresses[0]); err != nil {
				continue
			}
			server := (&url.URL{Scheme: "https", Host: net.JoinHostPort(ep.Addresses[0], port)}).String()
			return endpoint{server: server, cluster: &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte(r.CA)}}, nil
		}
	}
	return endpoint{}, fault.Await("nodes cannot be told where the API server is: ConfigMap kube-public/cluster-info does not exist, and service default/kubernetes has no ready endpoint with a port https")
}

func httpsPort(s discoveryv1.EndpointSlice) string {
	for _, p := range s.Ports {
		if p.Name != nil && *p.Name == "https" && p.Port != nil {
			return strconv.Itoa(int(*p.Port))
		}
	}
	return ""
}

// NodeSettings are the settings with the credentials of registries, without those where
// there is an error.
func (r *Reconciler) NodeSettings(ctx context.Context) (render.Settings, error) {
	s := r.Settings
	var err error
	s.RegistryCredentials, err = r.registryCredentials(ctx)
	return s, err
}

// registryCredentials reads the Secret of --node-registry-credentials-secret
// (contract: section 4.2).
func (r *Reconciler) registryCredentials(ctx context.Context) (map[string]render.RegistryCredential, error) {
	if r.RegistrySecret.Name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	err := r.Registry.Get(ctx, r.RegistrySecret, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fault.Await("the Secret %s of --node-registry-credentials-secret does not exist: create it", r.RegistrySecret)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", r.RegistrySecret, err)
	}
	bad := func(key string) error {
		// The cause would quote the content.
		return fault.Refuse("Secret %s of --node-registry-credentials-secret: key %q is not the JSON that its type asks for", r.RegistrySecret, key)
	}
	if secret.Type == corev1.SecretTypeDockerConfigJson {
		var config struct {
			Auths map[string]render.RegistryCredential `json:"auths"`
		}
		if json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config) != nil {
			return nil, bad(corev1.DockerConfigJsonKey)
		}
		return config.Auths, nil
	}
	out := make(map[string]render.RegistryCredential, len(secret.Data))
	for _, registry := range slices.Sorted(maps.Keys(secret.Data)) { // of several bad keys the same is named each time
		var c render.RegistryCredential
		if json.Unmarshal(secret.Data[registry], &c) != nil {
			return nil, bad(registry)
		}
		out[registry] = c
	}
	return out, nil
}
