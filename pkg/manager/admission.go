package manager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// ServeAdmission serves only the admission webhooks until ctx ends or a necessary part
// fails. It holds no lease, writes nothing and has no cache. Until the API server answers and
// the files of --cert-dir can be read, it is not ready, and retries.
func ServeAdmission(ctx context.Context, opts *Options) error {
	c, err := opts.newClusters()
	if err != nil {
		return err
	}
	serving := &clusterState{cluster: c.management}
	servers, err := opts.newServers(serving, serving)
	if err != nil {
		return err
	}
	counted, err := newMetrics(c)
	if err != nil {
		return err
	}
	deps := dependencies{engine: render.NewEngine(), metrics: counted, management: serving, worker: serving}
	return c.runWithServers(ctx, servers, func(ctx context.Context) error {
		mgr, err := serving.createManagerWithRetry(ctx, func() (ctrl.Manager, error) { return newAdmissionManager(opts, deps) })
		if err != nil {
			return nil //nolint:nilerr // shutting down before the start
		}
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("serving admission: %w", err)
		}
		return nil
	})
}

func newAdmissionManager(opts *Options, deps dependencies) (ctrl.Manager, error) {
	cfg := deps.management.cluster.config
	o, err := managerOptions(opts, "", "", cache.Options{})
	if err != nil {
		return nil, err
	}
	o.LeaderElection = false
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("preparing to serve admission: %w", err)
	}
	// The paths that operating-system-manager has, too, need no reads. The path that checks pools
	// reads what a review needs, because permission to watch all of it may be missing.
	live, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("preparing to read profiles: %w", err)
	}
	reviewer := &pools.Reconciler{Management: kubeclient.Cluster{Client: live, Live: live}, Namespace: opts.Namespace, ProfileNamespaces: opts.CrossNamespaces}
	_, err = addAdmission(mgr, opts, reviewer, deps)
	return mgr, err
}

// addAdmission adds the admission webhooks. pools finds the profiles of pools. The
// certificates are nil if no webhook configuration needs them.
func addAdmission(mgr ctrl.Manager, opts *Options, pools webhook.Pools, deps dependencies) (*webhook.Certificates, error) {
	o := opts.Webhook
	if o.Address == "" {
		return nil, nil
	}
	if o.Service.Name == "" {
		o.Service = types.NamespacedName{Namespace: opts.Namespace, Name: api.WebhookServiceName}
	}
	o.Namespace = opts.Namespace
	o.Clock = clock.RealClock{}
	o.Metrics = deps.metrics
	certificates, err := webhook.Setup(mgr, o, webhook.Handlers{Pools: pools, Checker: deps.engine, DenyUnknownProfiles: opts.DenyUnknownProfiles})
	if err != nil {
		return nil, fmt.Errorf("setting up --webhook-address: %w", err)
	}
	return certificates, nil
}
