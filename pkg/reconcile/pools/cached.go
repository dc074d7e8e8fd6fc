package pools

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// CacheTransform keeps of a Secret in cloud-init-settings a digest of each value
// instead of the value, for digestIn: ten thousand pools' user-data does not belong in
// memory. The getter's token, which every pool reads, stays. Of ServiceAccounts, Roles and
// RoleBindings it keeps what decideAccess compares.
//
// client-go may hand in an object twice. StringData, which the API server never
// returns, marks one whose data are digests already, as those are that slim made.
func CacheTransform(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return trimAccess(obj), nil
	}
	secret.ManagedFields = nil
	if secret.Name == api.SecretGetterToken {
		return secret, nil
	}
	if secret.StringData == nil {
		secret.Data = digestsOf(secret.Data)
	}
	secret.StringData = digested
	for key := range secret.Data {
		if shared, ok := unedited[key]; ok && len(secret.Data) == 1 && !edited(secret, key) {
			secret.Data = shared
		}
	}
	return secret, nil
}

// digested marks. Nobody writes what a cache holds.
var digested = map[string]string{}

// asAnnotated stands for a digest that the Secret has in its annotation as well, which is
// every one that nobody edited. No digest reads like that.
const asAnnotated = "as annotated"

// unedited are the data of such Secrets, by their only key: a map for each of them would
// be a twelfth of what is in memory for a pool.
var unedited = map[string]map[string][]byte{
	api.UserDataKey:   {api.UserDataKey: []byte(asAnnotated)},
	api.KubeconfigKey: {api.KubeconfigKey: []byte(asAnnotated)},
	edgeScriptKey:     {edgeScriptKey: []byte(asAnnotated)},
}

// digestsOf are those of data, nil where there are none, as after slim.
func digestsOf(data map[string][]byte) map[string][]byte {
	if len(data) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(data))
	for k, v := range data {
		out[k] = []byte(dataDigest(v))
	}
	return out
}

// digestIn is the digest of what a cached Secret has under a key, empty where it has
// nothing there.
func digestIn(s *corev1.Secret, key string) string {
	if digest := string(s.Data[key]); digest != asAnnotated {
		return digest
	}
	return s.Annotations[api.AnnotationDataDigest]
}

// edited reports whether a cached Secret has something else under a key than it says.
func edited(s *corev1.Secret, key string) bool {
	return digestIn(s, key) != s.Annotations[api.AnnotationDataDigest]
}
