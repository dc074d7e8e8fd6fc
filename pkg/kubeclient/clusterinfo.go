package kubeclient

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClusterInfoKey is the key of ConfigMap kube-public/cluster-info that holds a kubeconfig
// without credentials.
const ClusterInfoKey = "kubeconfig"

// ClusterInfo returns the API server and CA of ConfigMap kube-public/cluster-info, which
// nodes use. An error says what to change in it.
func ClusterInfo(cm *corev1.ConfigMap) (*clientcmdapi.Cluster, error) {
	config, err := clientcmd.Load([]byte(cm.Data[ClusterInfoKey]))
	if err != nil {
		return nil, fmt.Errorf("key kubeconfig is not a kubeconfig: %w", err)
	}
	// Nodes get the cluster and a token, never these users. But cluster-info is public, and
	// its writer should learn about a user with a plugin.
	for name, user := range config.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("key kubeconfig: user %q has a plugin (exec or auth-provider), which is never run: remove all users", name)
		}
	}
	if len(config.Clusters) != 1 {
		return nil, fmt.Errorf("key kubeconfig has %d clusters: leave exactly the one that nodes join", len(config.Clusters))
	}
	var only *clientcmdapi.Cluster
	for _, c := range config.Clusters {
		only = c
	}
	if only.CertificateAuthority != "" && len(only.CertificateAuthorityData) == 0 {
		return nil, fmt.Errorf("key kubeconfig names the CA by file %q, which no node has: embed it as certificate-authority-data", only.CertificateAuthority)
	}
	only.LocationOfOrigin = ""
	return only, nil
}

// BootstrapKubeconfig is the kubelet's bootstrap kubeconfig with a token. It names cluster, user and
// context as operating-system-manager does: an equivalent kubeconfig remains.
func BootstrapKubeconfig(cluster *clientcmdapi.Cluster, token string) (string, error) {
	const name = "c"
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("encoding a bootstrap kubeconfig: %w", err)
	}
	return string(kubeconfig), nil
}
