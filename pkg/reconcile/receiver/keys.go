package receiver

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// keyLife is how long a key is cached in memory, so that unauthenticated requests cause
// at most one read of the API server in that time. A new key takes effect after it.
const keyLife = 5 * time.Second

// maxCachedKeys is the number of keys in memory.
const maxCachedKeys = 4096

// keyCache reads the keys in Secrets.
type keyCache struct {
	live client.Reader

	mu    sync.Mutex            // held while a key is read, for all who wait for it
	known *cache.LRUExpireCache // of cachedKey, by the name of the Secret
}

type cachedKey struct {
	key []byte
	err error
}

// unusableError says how to fix a Secret.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

// readCached reads the key in a Secret, or returns the recent result.
func (k *keyCache) readCached(ctx context.Context, secret types.NamespacedName) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.known.Get(secret); ok {
		cached := v.(cachedKey)
		return cached.key, cached.err
	}
	key, err := k.read(ctx, secret)
	if ctx.Err() != nil {
		return nil, ctx.Err() // not a problem of the Secret
	}
	for _, name := range k.known.Keys() {
		k.known.Get(name) // drops an expired key, which could be of a deleted Secret
	}
	// Errors are cached too, so that many requests cause few reads.
	k.known.Add(secret, cachedKey{key, err}, keyLife)
	return key, err
}

func (k *keyCache) read(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	var secret corev1.Secret
	if err := k.live.Get(ctx, name, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &unusableError{fmt.Sprintf("spec.webhook.secretRef: Secret %s does not exist: create it with the key %s", name, api.WebhookToken)}
		}
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	key := bytes.TrimRight(secret.Data[api.WebhookToken], "\r\n") // trailing line breaks come from editors
	if len(key) == 0 {
		return nil, &unusableError{fmt.Sprintf("spec.webhook.secretRef: Secret %s needs a non-empty key %s", name, api.WebhookToken)}
	}
	return key, nil
}
