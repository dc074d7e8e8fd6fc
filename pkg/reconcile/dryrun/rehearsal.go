package dryrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun/virtual"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// mostRuns limits the consecutive runs of a controller for one object, and mostRounds
	// the rounds over all objects: a controller that still writes after that never ends.
	mostRuns, mostRounds = 8, 10
	// again is the longest requeue delay that is run immediately, as after a conflict.
	again = 2 * time.Second
)

// DryRun runs controllers. Its fields are set once; all of the controllers write into
// Store, through its views.
type DryRun struct {
	// Store stores their writes.
	Store *virtual.Store
	// Management has ProfileSources and configurations, Worker pools and nodes: the same
	// View if there is one cluster.
	Management, Worker *virtual.View
	// Namespace is the controller's.
	Namespace string
	// Shard selects the objects to handle.
	Shard shard.Shard
	// Builtin manages the ProfileSource of the built-in profiles, Sources all of them.
	// Builtin and Nodes do not run for a shard without the remaining objects.
	Builtin, Sources crreconcile.Reconciler
	// Rollouts runs rollouts in waves, Pools renders pools.
	Rollouts, Pools crreconcile.Reconciler
	// Unallowed returns the objects outside of its namespace that a pool refers to and
	// that the controller must not read.
	Unallowed func(md *cluster.MachineDeployment) []types.NamespacedName
	// Settings are the settings of nodes other than the profile.
	Settings func(context.Context) (render.Settings, error)
	// Nodes creates NodeProvenances; nil if that kind is not installed.
	Nodes crreconcile.Reconciler
}

// Run runs all controllers until none has anything left to write, and reports the result.
// The error is about listing objects; problems of single objects are in the report.
func (r *DryRun) Run(ctx context.Context) (*Report, error) {
	failed := map[string]error{}
	for range mostRounds {
		before := r.Store.WriteCount()
		if err := r.runControllers(ctx, failed); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("rehearsing: %w", err)
		}
		if r.Store.WriteCount() == before {
			return r.buildReport(ctx, failed)
		}
	}
	return nil, errors.New("dry run: the controllers never finished writing: report this as a bug, with the log of --log-debug")
}

// runControllers runs every controller for all objects: sources, then pools, then nodes.
func (r *DryRun) runControllers(ctx context.Context, failed map[string]error) error {
	run := func(kind string, c crreconcile.Reconciler, keys []types.NamespacedName) {
		for _, key := range keys {
			subject := subjectOf(kind, key)
			if err := r.reconcileUntilStable(ctx, c, subject, key); err != nil {
				failed[subject] = err
			} else {
				delete(failed, subject)
			}
		}
	}
	if r.Shard.IncludesUnlabeled() {
		run(builtinKind, r.Builtin, []types.NamespacedName{{Namespace: r.Namespace, Name: api.DefaultsName}})
	}
	var sources api.ProfileSourceList
	if err := r.Management.List(ctx, &sources, client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	names := []types.NamespacedName{}
	for i := range sources.Items {
		if r.Shard.Includes(&sources.Items[i]) {
			names = append(names, client.ObjectKeyFromObject(&sources.Items[i]))
		}
	}
	run(sourceKind, r.Sources, sorted(names))
	rollouts := func() {
		run(rolloutKind, r.Rollouts, append(sorted(names), types.NamespacedName{Namespace: r.Namespace}))
	}
	rollouts()
	pools, err := r.listCurrentAndDeletedPools(ctx)
	if err != nil {
		return err
	}
	run(poolKind, r.Pools, pools)
	rollouts()
	if r.Nodes == nil || !r.Shard.IncludesUnlabeled() {
		return nil
	}
	nodes := kubeclient.MetadataList(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := r.Worker.List(ctx, nodes); err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	names = nil
	for i := range nodes.Items {
		names = append(names, types.NamespacedName{Name: nodes.Items[i].Name})
	}
	run(nodeKind, r.Nodes, sorted(names))
	return nil
}

// reconcileUntilStable runs a controller for one object until it has nothing left to write.
func (r *DryRun) reconcileUntilStable(ctx context.Context, c crreconcile.Reconciler, subject string, key types.NamespacedName) error {
	r.Store.SetSubject(subject)
	for range mostRuns {
		before := r.Store.WriteCount()
		res, err := c.Reconcile(ctx, crreconcile.Request{NamespacedName: key})
		if err != nil {
			return err
		}
		if raced := res.RequeueAfter > 0 && res.RequeueAfter < again; !raced && r.Store.WriteCount() == before {
			return nil
		}
	}
	return nil // the next round includes it again
}

// listCurrentAndDeletedPools lists the MachineDeployments that are pools, or were: the objects of a deleted
// one are included, too.
func (r *DryRun) listCurrentAndDeletedPools(ctx context.Context) ([]types.NamespacedName, error) {
	names, others := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	var mds cluster.MachineDeploymentList
	if err := r.Worker.List(ctx, &mds, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	for i := range mds.Items {
		if md := &mds.Items[i]; !r.Shard.Includes(md) {
			others[client.ObjectKeyFromObject(md)] = true
		} else if md.Annotations[api.AnnotationOSP] != "" || controllerutil.ContainsFinalizer(md, api.FinalizerPool) {
			names[client.ObjectKeyFromObject(md)] = true
		}
	}
	made := func(obj client.Object) {
		key, ok := lineage.ParsePool(lineage.PoolOf(obj))
		if ok && !others[key] && (names[key] || r.Shard.IncludesUnlabeled()) {
			names[key] = true
		}
	}
	configs, err := kubeclient.ListConfigMetadata(ctx, r.Management, r.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range configs {
		made(&configs[i])
	}
	var secrets corev1.SecretList
	if err := r.Worker.List(ctx, &secrets, client.InNamespace(api.NamespaceCloudInitSettings), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Secrets of %s: %w", api.NamespaceCloudInitSettings, err)
	}
	for i := range secrets.Items {
		made(&secrets.Items[i])
	}
	return sorted(slices.Collect(maps.Keys(names))), nil
}

func sorted(names []types.NamespacedName) []types.NamespacedName {
	names = slices.Clone(names)
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// The kinds of subjects.
const (
	sourceKind  = "ProfileSource"
	builtinKind = "keeper of"
	rolloutKind = "rollout of"
	poolKind    = "pool"
	nodeKind    = "Node"
)

// subjectOf names the subject of a controller's run.
func subjectOf(kind string, key types.NamespacedName) string {
	return kind + " " + strings.TrimPrefix(key.String(), "/")
}
