package pools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

const (
	// keyDataKey is the key of the Secret api.KeySecretName.
	keyDataKey = "key"
	// keySize is the block that SHA-256 digests to, in bytes.
	keySize = 32
)

// digestKey caches the key of keyed digests.
type digestKey struct {
	mu    sync.Mutex
	value []byte
	// proposed is the same for all pools that find none, so that the first of them stores
	// the key of all.
	proposed *corev1.Secret
}

// observe returns the key, and the Secret to create where there is none yet.
func (k *digestKey) observe(ctx context.Context, live client.Reader, namespace string, random io.Reader) ([]byte, *corev1.Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value != nil {
		return k.value, nil, nil
	}
	name := types.NamespacedName{Namespace: namespace, Name: api.KeySecretName}
	var secret corev1.Secret
	found, err := kubeclient.Find(ctx, live, name, &secret)
	if err != nil {
		return nil, nil, err
	}
	if !found && k.proposed == nil {
		key := make([]byte, keySize)
		if _, err := io.ReadFull(random, key); err != nil {
			return nil, nil, fmt.Errorf("making the key of digests: %w", err)
		}
		k.proposed = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, Labels: map[string]string{api.LabelManagedBy: api.FieldManager}},
			Immutable:  new(true),
			Data:       map[string][]byte{keyDataKey: key},
		}
	}
	if !found {
		return k.proposed.Data[keyDataKey], k.proposed, nil
	}
	if len(secret.Data[keyDataKey]) < keySize {
		return nil, nil, fmt.Errorf("the Secret %s: key %q has %d bytes, it needs %d: delete the Secret, a new one is made", name, keyDataKey, len(secret.Data[keyDataKey]), keySize)
	}
	k.value, k.proposed = secret.Data[keyDataKey], nil
	return k.value, nil, nil
}

// createKey stores the key of keyed digests. Another pool's run may have stored the same
// key before; another controller may have stored another, with which this run starts again.
func (w writer) createKey(ctx context.Context, key *corev1.Secret) error {
	if key == nil {
		return nil
	}
	name := client.ObjectKeyFromObject(key)
	err := w.management.Create(ctx, key.DeepCopy(), client.FieldOwner(api.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		var have corev1.Secret
		if reading := w.management.Live.Get(ctx, name, &have); reading != nil {
			return fault.Raced(fmt.Errorf("reading Secret %s: %w", name, reading))
		}
		if bytes.Equal(have.Data[keyDataKey], key.Data[keyDataKey]) {
			return nil
		}
	}
	return fault.Creating(wrapped("creating Secret "+name.String(), err))
}
