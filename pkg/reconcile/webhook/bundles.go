package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook/pki"
)

// forbiddenRetry is the time until the next attempt to read configurations without
// permission, because deploy/webhook.yaml was not applied.
const forbiddenRetry = 10 * time.Minute

// raceRetry is the time until the next attempt after a conflict.
const raceRetry = time.Second

// injected are the annotations that request caBundle from cert-manager's cainjector:
// https://cert-manager.io/docs/concepts/ca-injector/
var injected = []string{"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca"}

// Bundles publishes the CA of the webhooks to one API server: it writes only caBundle, in
// the webhooks of a MutatingWebhookConfiguration and a ValidatingWebhookConfiguration
// that call this controller. Its fields are set once, before Start.
type Bundles struct {
	// Client patches the configurations, Live reads them.
	Client client.Client
	Live   client.Reader
	// Cache watches the configurations.
	Cache cache.Cache
	// Name is the name of both configurations.
	Name string
	// Certificates has the CA, and the names by which webhooks call this controller.
	Certificates *Certificates
}

// NeedLeaderElection returns true: only one replica writes.
func (*Bundles) NeedLeaderElection() bool { return true }

// Start writes until ctx ends.
func (b *Bundles) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	b.Certificates.subscribe(changed)
	watched, logged := false, ""
	for {
		// Before that it is unknown whether there is a permission to watch.
		if len(b.Certificates.caBundle()) == 0 {
			if !b.wait(ctx, changed, 0) {
				return nil
			}
			continue
		}
		err := b.updateConfigurations(ctx)
		wait := time.Duration(0) // for ever
		switch {
		case apierrors.IsConflict(err):
			wait, err = raceRetry, nil // another client was faster
		case apierrors.IsForbidden(err):
			wait = forbiddenRetry
		case err != nil:
			wait = retry
		case !watched:
			for _, kind := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
				if err := notifyOnChange(ctx, b.Cache, kind, changed); err != nil {
					return fmt.Errorf("watching webhook configurations: %w", err)
				}
			}
			watched = true
		}
		if text := fmt.Sprint(err); err != nil && ctx.Err() == nil && text != logged {
			logged = text // once until it changes
			log.FromContext(ctx).Error(err, "publishing the webhooks' CA to the API server: check that deploy/webhook.yaml is applied", "configuration", b.Name)
		}
		if err == nil {
			logged = ""
		}
		if !b.wait(ctx, changed, wait) {
			return nil
		}
	}
}

// wait waits for a change, and for at most d unless d is 0; it returns false if ctx
// ended.
func (b *Bundles) wait(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		timer := b.Certificates.Clock.NewTimer(d)
		defer timer.Stop()
		after = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-after:
	}
	return true
}

// updateConfigurations updates the CA bundle in both webhook configurations. It is not an error if
// one does not exist.
func (b *Bundles) updateConfigurations(ctx context.Context) error {
	bundle := b.Certificates.caBundle()
	key := types.NamespacedName{Name: b.Name}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	if err := b.Live.Get(ctx, key, &mutating); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", b.Name, err)
	} else if err == nil {
		var configs []admissionregistrationv1.WebhookClientConfig
		for _, w := range mutating.Webhooks {
			configs = append(configs, w.ClientConfig)
		}
		if err := b.patch(ctx, &mutating, configs, bundle); err != nil {
			return err
		}
	}
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	if err := b.Live.Get(ctx, key, &validating); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", b.Name, err)
	} else if err == nil {
		var configs []admissionregistrationv1.WebhookClientConfig
		for _, w := range validating.Webhooks {
			configs = append(configs, w.ClientConfig)
		}
		return b.patch(ctx, &validating, configs, bundle)
	}
	return nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch writes caBundle if it differs. It fails if the object has changed since.
func (b *Bundles) patch(ctx context.Context, obj client.Object, configs []admissionregistrationv1.WebhookClientConfig, bundle []byte) error {
	for _, key := range injected {
		if _, ok := obj.GetAnnotations()[key]; ok {
			return fmt.Errorf("%T %s has the annotation %s, by which cert-manager writes caBundle: remove it, or set --cert-dir to the folder with cert-manager's certificate", obj, obj.GetName(), key)
		}
	}
	// The positions below are those of the object that was read, so the patch must not apply to
	// another version.
	ops := []operation{{"replace", "/metadata/resourceVersion", obj.GetResourceVersion()}}
	for i, config := range configs {
		if b.isServedHere(config) && !bytes.Equal(config.CABundle, bundle) {
			ops = append(ops, operation{"add", "/webhooks/" + strconv.Itoa(i) + "/clientConfig/caBundle", bundle})
		}
	}
	if len(ops) == 1 {
		return nil
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := b.Client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, text), client.FieldOwner(api.FieldManager)); err != nil {
		return fmt.Errorf("writing caBundle of %T %s: %w", obj, obj.GetName(), err)
	}
	log.FromContext(ctx).Info("published the webhooks' CA to the API server", "configuration", obj.GetName(), "webhooks", len(ops)-1)
	return nil
}

// isServedHere reports whether a webhook's client configuration calls a name in our certificate.
func (b *Bundles) isServedHere(config admissionregistrationv1.WebhookClientConfig) bool {
	host := ""
	switch {
	case config.Service != nil:
		host = config.Service.Name + "." + config.Service.Namespace + ".svc"
	case config.URL != nil:
		if u, err := url.Parse(*config.URL); err == nil {
			host = u.Hostname()
		}
	}
	return slices.Contains(pki.NormalizeNames(b.Certificates.Names), strings.ToLower(host))
}
