package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook/pki"
)

const (
	// checkInterval is the longest time between two checks of the clock, which can be changed.
	checkInterval = time.Hour
	// retry is the time until the next attempt when the API server does not answer.
	retry = 10 * time.Second
	// attempts limits how often a write is retried because another replica was faster.
	attempts = 5
	// pause is the minimum time between two renewals by one replica. If the clocks of two
	// replicas differ by months, each considers the other's certificates wrong.
	pause = 10 * time.Minute
)

// errNotOurs reports that the Secret was not created by this program.
var errNotOurs = errors.New("it was not made by osm-gitops")

// Certificates stores the webhooks' certificates in a Secret that all replicas share: the
// first replica that finds a due renewal does it, and the others read the result. Its
// exported fields are set once, before Start.
type Certificates struct {
	// Client writes the Secret, Live reads it.
	Client client.Client
	Live   client.Reader
	// Cache watches the Secret.
	Cache cache.Cache
	// Secret has the certificates.
	Secret types.NamespacedName
	// Names are the host names and addresses that the API server calls.
	Names []string
	// Clock is used to check which renewals are due.
	Clock clock.Clock

	wrote time.Time // by ensureOnce

	mu      sync.RWMutex
	current pki.Credentials
	waiting []chan<- struct{}
}

// NeedLeaderElection returns false: every replica serves.
func (*Certificates) NeedLeaderElection() bool { return false }

// GetCertificate is a function for tls.Config. It returns an error if there is no
// certificate yet.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.current.Serving == nil {
		return nil, errors.New("the webhooks have no certificate yet")
	}
	return c.current.Serving, nil
}

// caBundle returns the CAs that the API server must trust, in PEM; empty if there are none
// yet.
func (c *Certificates) caBundle() []byte {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.current.Bundle()
}

// subscribe registers a channel that gets a value, without blocking, when the bundle may have
// changed.
func (c *Certificates) subscribe(changed chan<- struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, changed)
}

// setCurrent sets the credentials to serve, and notifies the subscribers.
func (c *Certificates) setCurrent(next pki.Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = next
	for _, w := range c.waiting {
		sendNonBlocking(w)
	}
}

// Start maintains the certificates until ctx ends.
func (c *Certificates) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	if err := notifyOnChange(ctx, c.Cache, &corev1.Secret{}, changed); err != nil {
		return fmt.Errorf("watching the webhooks' certificates: %w", err)
	}
	logged := ""
	for mustRead := true; ; {
		var wait time.Duration
		if err := c.ensureCertificates(ctx, mustRead); err == nil {
			mustRead = false
			logged = ""
			wait = c.untilRenewal()
		} else {
			mustRead, wait = true, retry
			if text := err.Error(); ctx.Err() == nil && text != logged {
				logged = text // once until it changes: the next attempt follows in a few seconds
				log.FromContext(ctx).Error(err, "maintaining the webhooks' certificates", "secret", c.Secret.String())
			}
		}
		timer := c.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-changed:
			mustRead = true
		case <-timer.C():
		}
		timer.Stop()
	}
}

// untilRenewal returns the time until the next renewal can be due.
func (c *Certificates) untilRenewal() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	now := c.Clock.Now()
	return min(max(c.current.NextRenewal(now).Sub(now), 0), checkInterval)
}

// ensureCertificates reads the Secret, if it changed or a renewal is due, renews certificates, and uses
// the result.
func (c *Certificates) ensureCertificates(ctx context.Context, read bool) error {
	if !read && c.untilRenewal() > 0 {
		return nil
	}
	// After a conflict another replica has written: its certificates are read and used.
	for range attempts {
		err := c.ensureOnce(ctx)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return fmt.Errorf("writing the Secret %s: other clients keep changing it: find and stop them", c.Secret)
}

func (c *Certificates) ensureOnce(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Secret.Namespace, Name: c.Secret.Name}}
	err := c.Live.Get(ctx, c.Secret, secret)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return fmt.Errorf("reading the Secret %s: %w", c.Secret, err)
	}
	var stored pki.Credentials
	if !absent {
		if secret.Labels[api.LabelManagedBy] != api.FieldManager {
			return fmt.Errorf("the Secret %s: %w: delete it, or set --cert-dir to a folder with its files", c.Secret, errNotOurs)
		}
		if stored, err = pki.Parse(secret.Data); err != nil {
			log.FromContext(ctx).Error(err, "the webhooks' certificates are invalid: creating new ones", "secret", c.Secret.String())
		}
	}
	now := c.Clock.Now()
	next, why, err := stored.RenewIfDue(c.Names, now)
	if err != nil {
		return fmt.Errorf("renewing the webhooks' certificates: %w", err)
	}
	if why == "" {
		c.setCurrent(stored)
		return nil
	}
	// Otherwise two replicas with different clocks would replace each other's certificates
	// forever.
	if since := now.Sub(c.wrote); stored.Serving != nil && !c.wrote.IsZero() && since >= 0 && since < pause {
		c.setCurrent(stored)
		return fmt.Errorf("the Secret %s: another replica replaced the new certificates of this one (%s): correct the clock of the replica that is wrong", c.Secret, why)
	}
	if secret.Data, err = next.EncodeSecretData(); err != nil {
		return fmt.Errorf("encoding the webhooks' certificates: %w", err)
	}
	if err := c.write(ctx, secret, absent); err != nil {
		return err
	}
	c.wrote = now
	log.FromContext(ctx).Info("created certificates for the webhooks", "because", why, "until", next.Serving.Leaf.NotAfter, "next", next.NextRenewal(now))
	c.setCurrent(next)
	return nil
}

// write creates the Secret, or updates it if it has not changed since it was read.
func (c *Certificates) write(ctx context.Context, secret *corev1.Secret, absent bool) error {
	var err error
	if absent {
		secret.ResourceVersion = ""
		secret.Type = corev1.SecretTypeTLS
		secret.Labels = map[string]string{api.LabelManagedBy: api.FieldManager}
		err = c.Client.Create(ctx, secret, client.FieldOwner(api.FieldManager))
	} else {
		err = c.Client.Update(ctx, secret, client.FieldOwner(api.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing the Secret %s: %w", c.Secret, err)
	}
	return nil
}

// notifyOnChange sends to a channel, without blocking, whenever an object of a cache changes. It
// does not wait for the cache either, which can lack the permission to watch.
func notifyOnChange(ctx context.Context, c cache.Cache, obj client.Object, changed chan<- struct{}) error {
	informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { sendNonBlocking(changed) },
		UpdateFunc: func(_, _ any) { sendNonBlocking(changed) },
		DeleteFunc: func(any) { sendNonBlocking(changed) },
	})
	return err
}

// sendNonBlocking sends to a channel with a buffer of one, unless the buffer is full.
func sendNonBlocking(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
