package verify

import (
	"bytes"
	"cmp"
	"context"
	"regexp"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// readClusterInfo reads ConfigMap cluster-info; nil if it is missing or invalid.
func (v *Verifier) readClusterInfo(ctx context.Context) (*clientcmdapi.Cluster, error) {
	var cm corev1.ConfigMap
	found, err := kubeclient.Find(ctx, v.Worker, types.NamespacedName{Namespace: metav1.NamespacePublic, Name: "cluster-info"}, &cm)
	if err != nil || !found {
		return nil, err
	}
	config, err := clientcmd.Load([]byte(cm.Data["kubeconfig"]))
	if err != nil || len(config.Clusters) != 1 {
		return nil, nil //nolint:nilerr // the controller rejects it too and uses the previous one
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = ""
		return c, nil
	}
	return nil, nil
}

// buildKubeconfig builds a kubelet's kubeconfig like the controller, for a pool whose Secret
// is not trusted.
func (b *bootRenderer) buildKubeconfig() (string, error) {
	cluster := &clientcmdapi.Cluster{CertificateAuthorityData: []byte(b.in.Settings.KubernetesCACert)}
	if b.info != nil {
		cluster = b.info.DeepCopy()
	}
	cluster.Server = b.in.Cluster.Server
	text, err := kubeclient.BootstrapKubeconfig(cluster, "aaaaaa.bbbbbbbbbbbbbbbb") // it needs no quotes
	return withToken(text, b.in.Cluster.BootstrapToken), err
}

// isControllerKubeconfig reports whether a kubeconfig is what the controller writes with its server, CA
// and token, and nothing more: machines get all of it.
func (b *bootRenderer) isControllerKubeconfig(config *clientcmdapi.Config, data []byte) bool {
	var have any
	// Machines would get a comment too, and parsing would hide it.
	if bytes.ContainsRune(data, '#') || yaml.Unmarshal(data, &have) != nil {
		return false
	}
	const name = "c" // as operating-system-manager writes it
	c, u := config.Clusters[name], config.AuthInfos[name]
	if c == nil || u == nil {
		return false
	}
	clusters := []*clientcmdapi.Cluster{{}}
	if b.info != nil {
		clusters = append(clusters, b.info.DeepCopy())
	}
	for _, candidate := range clusters {
		candidate.Server, candidate.CertificateAuthorityData = c.Server, c.CertificateAuthorityData
		text, err := kubeclient.BootstrapKubeconfig(candidate, u.Token)
		var want any
		if err == nil && yaml.Unmarshal([]byte(text), &want) == nil && compareValues("", want, have) == nil {
			return true
		}
	}
	return false
}

// kubeconfigName returns the name of the Secret with the kubelet's bootstrap kubeconfig.
func kubeconfigName(s *target) string {
	return cmp.Or(s.gen.Record.BootstrapKubeconfigSecretName, lineage.NamesOf(s.pool).Kubeconfig)
}

var kubeletToken = regexp.MustCompile(`^` + kubeletShape + `$`)

// checkKubeconfig compares the kubeconfig of a kubelet's first login: the server and the CA
// have to match the record or the cluster, and it has to contain a token and nothing more.
func (b *bootRenderer) checkKubeconfig(s *target) Check {
	check := Check{Thing: ThingSecret, Name: api.NamespaceCloudInitSettings + "/" + kubeconfigName(s)}
	if b.kubeconfig == nil {
		return check.asMissing("kubelets of the pool log in with it")
	}
	data := b.kubeconfig.Data[api.KubeconfigKey]
	config, err := clientcmd.Load(data)
	if err != nil || len(config.Clusters) != 1 || len(config.AuthInfos) != 1 {
		return check.withDifference(newDifference("key "+api.KubeconfigKey, 0, "a kubeconfig with one cluster and one user", "something else"))
	}
	check.Note = "it names the server and the CA of the cluster, and a token"
	for _, c := range config.Clusters {
		if c.Server != b.in.Cluster.Server && (b.info == nil || c.Server != b.info.Server) {
			return check.withDifference(newDifference("server", 0, b.in.Cluster.Server, redact.PrintableLine(c.Server)))
		}
		if ca := string(c.CertificateAuthorityData); ca != b.in.Settings.KubernetesCACert && (b.info == nil || ca != string(b.info.CertificateAuthorityData)) {
			return check.withDifference(newDifference("certificate-authority-data", 0, "the CA of the cluster", "another one"))
		}
		if c.InsecureSkipTLSVerify || c.ProxyURL != "" {
			return check.withDifference(newDifference("cluster", 0, "its server and its CA", "insecure-skip-tls-verify or proxy-url as well"))
		}
	}
	for _, u := range config.AuthInfos {
		if !kubeletToken.MatchString(u.Token) || u.Exec != nil || u.AuthProvider != nil || u.TokenFile != "" || len(u.ClientCertificateData) > 0 {
			return check.withDifference(newDifference("user", 0, "only a bootstrap token", "something else"))
		}
	}
	if !b.isControllerKubeconfig(config, data) {
		return check.withDifference(newDifference("key "+api.KubeconfigKey, 0, "only the compared fields", "further fields"))
	}
	return check.withDifference(firstMismatch(
		field{"annotation " + api.AnnotationDataDigest, lineage.DataDigest(data), b.kubeconfig.Annotations[api.AnnotationDataDigest]},
		field{"annotation " + api.AnnotationPool, s.pool.String(), b.kubeconfig.Annotations[api.AnnotationPool]},
	))
}
