package kubeclient

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func clusterInfo(kubeconfig string) (*clientcmdapi.Cluster, error) {
	return ClusterInfo(&corev1.ConfigMap{Data: map[string]string{ClusterInfoKey: kubeconfig}})
}

// A plugin in cluster-info is rejected with the name of its user (security.md 23).
func TestClusterInfo(t *testing.T) {
	const one = "apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster: {server: 'https://a:6443'}\n"
	if c, err := clusterInfo(one); err != nil || c.Server != "https://a:6443" {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, bad := range []string{"", "{", one + "- name: b\n  cluster: {server: 'https://b:6443'}\n"} {
		if _, err := clusterInfo(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	// The path of a file on the author's machine is useless to a node.
	if _, err := clusterInfo(strings.Replace(one, "{server", "{certificate-authority: /etc/ca.crt, server", 1)); err == nil || !strings.Contains(err.Error(), "certificate-authority-data") {
		t.Errorf("a CA in a file: %v", err)
	}
	for _, plugin := range []string{"exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}", "auth-provider: {name: oidc}"} {
		if _, err := clusterInfo(one + "users:\n- name: eve\n  user:\n    " + plugin + "\n"); err == nil || !strings.Contains(err.Error(), `user "eve" has a plugin`) {
			t.Errorf("%s: %v", plugin, err)
		}
	}
}
