package manager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
)

// addAdmission adds the admission webhooks. pools finds the profiles of pools. The
// certificates are nil if no webhook configuration needs them.
func addAdmission(mgr ctrl.Manager, opts *Options, pools webhook.Pools, facts nodeFacts) (*webhook.Certificates, error) {
	o := opts.Webhook
	if o.Address == "" {
		return nil, nil
	}
	if o.Service.Name == "" {
		o.Service = types.NamespacedName{Namespace: opts.Namespace, Name: api.WebhookServiceName}
	}
	o.Namespace, o.Clock, o.Metrics = opts.Namespace, clock.RealClock{}, facts.metrics
	certificates, err := webhook.Setup(mgr, o, webhook.Handlers{Pools: pools, Checker: facts.engine, DenyUnknownProfiles: opts.DenyUnknownProfiles})
	if err != nil {
		return nil, fmt.Errorf("setting up --webhook-address: %w", err)
	}
	return certificates, nil
}
