package pools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

const (
	// keyDataKey is the data key of the Secret api.KeySecretName.
	keyDataKey = "key"
	// keySize is the block that SHA-256 digests to, in bytes.
	keySize = 32
)

// digestKey caches the key of keyed digests, which the Secret api.KeySecretName stores.
type digestKey struct {
	mu     sync.Mutex
	value  []byte
	stored bool
}

// readOrGenerate returns the key, and whether it is stored. If the Secret does not exist, it
// generates a key, the same for all pools.
func (k *digestKey) readOrGenerate(ctx context.Context, live client.Reader, namespace string, random io.Reader) (key []byte, stored bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value != nil {
		return k.value, k.stored, nil
	}
	name := types.NamespacedName{Namespace: namespace, Name: api.KeySecretName}
	var secret corev1.Secret
	found, err := kubeclient.Find(ctx, live, name, &secret)
	if err != nil {
		return nil, false, err
	}
	key = secret.Data[keyDataKey]
	if !found {
		key = make([]byte, keySize)
		if _, err := io.ReadFull(random, key); err != nil {
			return nil, false, fmt.Errorf("generating the key of digests: %w", err)
		}
	}
	if len(key) < keySize {
		return nil, false, fmt.Errorf("the Secret %s: key %q has %d bytes, it needs %d: delete the Secret, and the controller creates another", name, keyDataKey, len(key), keySize)
	}
	k.value, k.stored = key, found
	return k.value, k.stored, nil
}

// storeInSecret stores the key that observe generated. If another controller has stored one
// meanwhile, the next run reads that.
func (k *digestKey) storeInSecret(ctx context.Context, into client.Client, namespace string, key []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !bytes.Equal(k.value, key) {
		return fmt.Errorf("%w: the key of digests is another", fault.ErrRaced)
	}
	if k.stored {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.KeySecretName, Namespace: namespace, Labels: map[string]string{api.LabelManagedBy: api.FieldManager}},
		Immutable:  new(true),
		Data:       map[string][]byte{keyDataKey: key},
	}
	if err := into.Create(ctx, secret, client.FieldOwner(api.FieldManager)); err != nil {
		k.value = nil
		return fault.ClassifyCreateError(fmt.Errorf("creating Secret %s: %w", client.ObjectKeyFromObject(secret), err))
	}
	k.stored = true
	return nil
}
