package manager

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun"
)

// observeLease is the lease of an observing controller, so that it does not compete for the
// lease of the other controller.
const observeLease = "osm-gitops-observe"

// quietLease is a lease without events.
func quietLease(cfg *rest.Config, name, namespace string) (resourcelock.Interface, error) {
	c, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease %s: %w", name, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: InstanceIdentity() + " " + string(uuid.NewUUID())},
	}, nil
}

// PublishDryRuns executes a dry run every minute, and writes its report into the condition Observed of
// ProfileSources, until ctx ends or a necessary part fails. It writes nothing else.
func PublishDryRuns(ctx context.Context, opts *Options) error {
	c, err := opts.newClusters()
	if err != nil {
		return err
	}
	deps, release, err := opts.dryRunDependencies(c)
	if err != nil {
		return err
	}
	defer release()
	servers, err := opts.newServers(deps.management, deps.worker)
	if err != nil {
		return err
	}
	return c.runWithServers(ctx, servers, func(ctx context.Context) error { return opts.publishDryRuns(ctx, deps) })
}

// publishDryRuns waits for the clusters, then executes dry runs and publishes their reports until ctx
// ends.
func (opts *Options) publishDryRuns(ctx context.Context, deps dependencies) error {
	var s *dryRunEnvironment
	_, err := deps.management.createManagerWithRetry(ctx, func() (mgr ctrl.Manager, err error) {
		if s, err = opts.newDryRunEnvironment(ctx, deps, opts.Shard.LeaseName(observeLease)); err != nil {
			return nil, err
		}
		return s.management, nil
	})
	if err != nil {
		return nil //nolint:nilerr // shutting down before the start
	}
	if deps.worker != deps.management {
		workerCache := s.worker.GetCache()
		deps.worker.caches.Store(&workerCache)
	}
	err = s.management.Add(&dryrun.Observer{
		Client: s.management.GetClient(), Namespace: opts.Namespace, Shard: opts.Shard,
		Run: func(ctx context.Context) (*dryrun.Report, error) {
			if !s.waitForCaches(ctx) {
				return nil, ctx.Err()
			}
			return s.newDryRun().Run(ctx)
		},
	})
	if err != nil {
		return fmt.Errorf("preparing to observe: %w", err)
	}
	all, ctx := errgroup.WithContext(ctx)
	s.start(ctx, all)
	return all.Wait()
}
