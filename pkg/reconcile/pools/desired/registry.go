package desired

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// RegistryCredentials reads the Secret of --node-registry-credentials-secret, whose name is empty
// for none.
func RegistryCredentials(ctx context.Context, from client.Reader, key types.NamespacedName) (map[string]render.RegistryCredential, error) {
	if key.Name == "" {
		return nil, nil
	}
	var secret corev1.Secret
	err := from.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fault.Await("the Secret %s of --node-registry-credentials-secret does not exist: create it", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	bad := func(dataKey string) error {
		// The cause would quote the content.
		return fault.Reject("Secret %s of --node-registry-credentials-secret: key %q is not the JSON that its type asks for", key, dataKey)
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
		var credential render.RegistryCredential
		if json.Unmarshal(secret.Data[registry], &credential) != nil {
			return nil, bad(registry)
		}
		out[registry] = credential
	}
	return out, nil
}
