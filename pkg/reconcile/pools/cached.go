package pools

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
)

// DigestSecretsAndTrim replaces each value of a Secret in cloud-init-settings by its digest, for
// digestIn: the user data of ten thousand pools does not fit in memory. It preserves the getter's
// token, which every pool reads. It reduces ServiceAccounts, Roles and RoleBindings to the fields
// that package access compares.
//
// client-go can pass the same object twice. StringData, which the API server never returns,
// marks an object whose data are digests already.
func DigestSecretsAndTrim(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return access.Trim(obj), nil
	}
	secret.ManagedFields = nil
	if secret.Name == api.SecretGetterToken {
		return secret, nil
	}
	if secret.StringData == nil {
		for key, value := range secret.Data {
			secret.Data[key] = []byte(dataDigest(value))
		}
	}
	secret.StringData = digested
	return secret, nil
}

// digested marks a Secret whose data are digests.
var digested = map[string]string{}

// TrimClusterInfo reduces cluster-info to what pools read. It also contains a signature for
// every bootstrap token, thousands of them, and every pool reads it in each run.
func TrimClusterInfo(obj any) (any, error) {
	if cm, ok := obj.(*corev1.ConfigMap); ok {
		kubeconfig, found := cm.Data[kubeclient.ClusterInfoKey]
		cm.ManagedFields = nil
		cm.BinaryData = nil
		cm.Data = nil
		if found {
			cm.Data = map[string]string{kubeclient.ClusterInfoKey: kubeconfig}
		}
	}
	return obj, nil
}

// digestIn is the digest of the value under a key of a cached Secret, empty if the key is absent.
func digestIn(s *corev1.Secret, key string) string { return string(s.Data[key]) }

// isEdited reports whether the value under a key of a cached Secret differs from the recorded digest.
func isEdited(s *corev1.Secret, key string) bool {
	return digestIn(s, key) != s.Annotations[api.AnnotationDataDigest]
}
