// Package secretdigest digests credentials and tokens with a key, so that an attacker who reads
// the digests, in annotations, cannot test guesses. The key is in the Secret api.KeySecretName.
//
// Start with Of. Key reads the key, and generates and stores it if there is none.
package secretdigest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

// Of digests secrets with a key. Equal digests mean the same parts in the same order.
func Of(key []byte, parts ...[]byte) string {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		fmt.Fprintf(mac, "%d:", len(p))
		mac.Write(p)
	}
	return "v1:hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

const (
	// keyDataKey is the data key of the Secret api.KeySecretName.
	keyDataKey = "key"
	// KeySize is the block that SHA-256 digests to, in bytes.
	KeySize = sha256.Size
)

// Key caches the key. Its zero value is ready to use.
type Key struct {
	mu     sync.Mutex
	read   bool   // the Secret was read, though it may not exist
	value  []byte // nil for none
	stored bool
}

// Read returns the key, and whether it is stored. It is nil if there is none.
func (k *Key) Read(ctx context.Context, live client.Reader, namespace string) (key []byte, stored bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read || k.value != nil { // another pool can have generated it after a failed write
		return k.value, k.stored, nil
	}
	name := types.NamespacedName{Namespace: namespace, Name: api.KeySecretName}
	var secret corev1.Secret
	found, err := kubeclient.Find(ctx, live, name, &secret)
	if err != nil {
		return nil, false, err
	}
	key = secret.Data[keyDataKey]
	if found && len(key) < KeySize {
		return nil, false, fmt.Errorf("the Secret %s: key %q has %d bytes, it needs %d: delete the Secret, and the controller creates another", name, keyDataKey, len(key), KeySize)
	}
	k.read = true
	k.value = key
	k.stored = found
	return k.value, k.stored, nil
}

// Generate returns a key after Read found none, the same for all pools, and whether it is stored
// meanwhile.
func (k *Key) Generate(random io.Reader) (key []byte, stored bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value == nil {
		key = make([]byte, KeySize)
		if _, err := io.ReadFull(random, key); err != nil {
			return nil, false, fmt.Errorf("generating the key of digests: %w", err)
		}
		k.value = key
	}
	return k.value, k.stored, nil
}

// StoreInSecret stores the key that Generate returned. If another controller has stored one
// meanwhile, the next run reads that.
func (k *Key) StoreInSecret(ctx context.Context, into client.Client, namespace string, key []byte) error {
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
		k.read, k.value = false, nil
		return fault.ClassifyCreateError(fmt.Errorf("creating Secret %s: %w", client.ObjectKeyFromObject(secret), err))
	}
	k.stored = true
	return nil
}
