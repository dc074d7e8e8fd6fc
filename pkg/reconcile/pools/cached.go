package pools

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
)

// CacheTransform keeps of a Secret in cloud-init-settings a digest of each value
// instead of the value, for digestIn: ten thousand pools' user-data does not belong in
// memory. The getter's token, which every pool reads, stays. Of ServiceAccounts, Roles and
// RoleBindings it keeps what package access compares.
//
// client-go may hand in an object twice. StringData, which the API server never
// returns, marks one whose data are digests already.
func CacheTransform(obj any) (any, error) {
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

// TrimConfig keeps of a configuration what is not its spec, which is as large as what
// it describes and cannot change.
func TrimConfig(obj any) (any, error) {
	if osc, ok := obj.(*osm.OperatingSystemConfig); ok {
		osc.Spec = osm.OperatingSystemConfigSpec{}
		osc.ManagedFields = nil
	}
	return obj, nil
}

// TrimClusterInfo keeps of cluster-info what pools read. It also holds a signature for
// every bootstrap token, thousands of them, and every pool reads it each time.
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

// digestIn is the digest of what a cached Secret has under a key, empty where it has
// nothing there.
func digestIn(s *corev1.Secret, key string) string { return string(s.Data[key]) }

// edited reports whether a cached Secret has something else under a key than it says.
func edited(s *corev1.Secret, key string) bool {
	return digestIn(s, key) != s.Annotations[api.AnnotationDataDigest]
}
