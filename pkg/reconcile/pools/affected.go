package pools

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// poolFinder finds the pools to which a change of an object matters.
type poolFinder struct {
	management, worker client.Reader
	namespace          string // of configurations
	profiles           desired.Profiles
	cache              *poolCache
}

// profileObjectHandler maps an OperatingSystemProfile to the pools that it affects. Pools that name
// the object itself run on every change: if it is deleted, a built-in profile can take its
// place. The other pools get the version of a profile from the inventory of a source; a change
// of the inventory starts them, and the object exists before that. So a created object affects
// only the pools that read objects themselves: see poolsReadingProfileObject. A deleted object affects none of
// them: a pool that uses it has its configuration, and reports when it needs the object again.
// An edited object can affect all of them; a source never edits one.
//
// When the controller starts, all pools run, after all objects are known.
func (a poolFinder) profileObjectHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]
	add := func(q queue, pools ...[]crreconcile.Request) {
		for _, some := range pools {
			for _, pool := range some {
				q.Add(pool)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				add(q, a.poolsNaming(ctx, e.Object.GetName()), a.poolsReadingProfileObject(ctx, e.Object))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if was.GetUID() == is.GetUID() && was.GetGeneration() == is.GetGeneration() && maps.Equal(was.GetLabels(), is.GetLabels()) && maps.Equal(was.GetAnnotations(), is.GetAnnotations()) {
				return // the informer's own
			}
			// Both labels count: an edit can move the object from one profile to another.
			add(q, a.poolsNaming(ctx, is.GetName()), a.poolsNaming(ctx, was.GetLabels()[api.LabelProfile]), a.poolsNaming(ctx, is.GetLabels()[api.LabelProfile]), a.poolsReadingProfileObject(ctx, is))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			add(q, a.poolsNaming(ctx, e.Object.GetName()))
		},
	}
}

// poolsReadingProfileObject maps a profile object to the pools that read it themselves: pools with a pinned
// version, which select among the objects; pools that lack it; and pools made from it, because a
// different object can have replaced it.
func (a poolFinder) poolsReadingProfileObject(ctx context.Context, obj client.Object) []crreconcile.Request {
	var out []crreconcile.Request
	for _, pool := range a.cache.poolsLacking(a.profiles.FormatRef(obj.GetNamespace(), obj.GetName())) {
		out = append(out, requestFor(pool)...)
	}
	if name := obj.GetLabels()[api.LabelProfile]; name != "" {
		pinned := func(md *cluster.MachineDeployment) bool { return md.Annotations[api.AnnotationVersionPin] != "" }
		out = append(out, a.listPoolRequests(ctx, pinned, client.MatchingFields{profileIndex: name})...)
	}
	return append(out, a.poolsUsing(ctx, obj)...)
}

// poolsUsing maps a profile object to the pools whose configuration has its profile and version.
func (a poolFinder) poolsUsing(ctx context.Context, obj client.Object) []crreconcile.Request {
	configs, err := kubeclient.ListConfigMetadata(ctx, a.management, a.namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "finding pools by their configurations") // the cache answers; it fails only when the controller stops
		return nil
	}
	version := ""
	if osp, ok := obj.(*osm.OperatingSystemProfile); ok {
		version = osp.Spec.Version
	}
	var out []crreconcile.Request
	for i := range configs {
		annotations := configs[i].Annotations
		switch annotations[api.AnnotationProfile] {
		case "":
		case obj.GetName():
			out = append(out, requestFor(annotations[api.AnnotationPool])...)
		// The label names the profile, of which the pool can have another version.
		case obj.GetLabels()[api.LabelProfile]:
			if annotations[api.AnnotationVersion] == version {
				out = append(out, requestFor(annotations[api.AnnotationPool])...)
			}
		}
	}
	return out
}

// profileSourceHandler enqueues the pools that name a profile whose versions in a ProfileSource
// changed.
func (a poolFinder) profileSourceHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]
	enqueue := func(ctx context.Context, q queue, names map[string]bool) {
		for name := range names {
			for _, req := range a.poolsNaming(ctx, name) {
				q.Add(req)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			enqueue(ctx, q, changedProfiles(nil, e.Object))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, q, changedProfiles(e.ObjectOld, e.ObjectNew))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			enqueue(ctx, q, changedProfiles(e.Object, nil))
		},
	}
}

// changedProfiles names the profiles whose entry differs between two states of a source. If the
// source becomes, or no longer is, the one for built-in profiles, it names all of them, because
// built-in profiles yield to all others.
func changedProfiles(before, after client.Object) map[string]bool {
	entries := func(obj client.Object) (out map[string][]api.ProfileEntry, builtin bool) {
		if ps, ok := obj.(*api.ProfileSource); ok && ps != nil {
			builtin = ps.Spec.Builtin != nil
		}
		return versionsForWaves(obj), builtin
	}
	old, wasBuiltin := entries(before)
	now, isBuiltin := entries(after)
	changed := map[string]bool{}
	for name, e := range now {
		if was, ok := old[name]; !ok || wasBuiltin != isBuiltin || !equality.Semantic.DeepEqual(was, e) {
			changed[name] = true
		}
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			changed[name] = true
		}
	}
	return changed
}

func (a poolFinder) poolsNaming(ctx context.Context, profile string) []crreconcile.Request {
	if profile == "" {
		return nil
	}
	return a.listPoolRequests(ctx, isPool, client.MatchingFields{profileIndex: profile})
}

func (a poolFinder) allPools(ctx context.Context) []crreconcile.Request {
	return a.listPoolRequests(ctx, isPool)
}

// listPoolRequests lists the requests of all MachineDeployments that pass the filter.
func (a poolFinder) listPoolRequests(ctx context.Context, which func(*cluster.MachineDeployment) bool, opts ...client.ListOption) []crreconcile.Request {
	var list cluster.MachineDeploymentList
	if err := a.worker.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		// The cache answers; it fails only when the controller stops.
		log.FromContext(ctx).Error(err, "listing MachineDeployments")
		return nil
	}
	out := make([]crreconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		if md := &list.Items[i]; which(md) {
			out = append(out, crreconcile.Request{NamespacedName: client.ObjectKeyFromObject(md)})
		}
	}
	return out
}

// poolsUsingGetterToken maps the Secret with the getter token to all pools, and other objects to
// none.
func (a poolFinder) poolsUsingGetterToken(ctx context.Context, obj client.Object) []crreconcile.Request {
	if obj.GetNamespace() == api.NamespaceCloudInitSettings && obj.GetName() == api.SecretGetterToken {
		return a.allPools(ctx)
	}
	return nil
}

func requestFor(pool string) []crreconcile.Request {
	key, ok := lineage.ParsePool(pool)
	if !ok {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: key}}
}

// versionsForWaves are what the waves get of the profiles of a source, and all there is to
// know of one that has no waves.
func versionsForWaves(obj client.Object) map[string][]api.ProfileEntry {
	out := map[string][]api.ProfileEntry{}
	ps, ok := obj.(*api.ProfileSource)
	if !ok || ps == nil {
		return out
	}
	for _, e := range ps.Status.Profiles {
		out[e.Name] = []api.ProfileEntry{e} // pins and removals
		for wave := int32(0); ps.HasWaves() && wave <= api.LastWave; wave++ {
			waveEntry, decided := selection.EntryForWave(ps, e, wave)
			// Before the decision it does not matter what the wave would get: only the decision
			// is a change.
			if !decided {
				waveEntry = api.ProfileEntry{}
			}
			out[e.Name] = append(out[e.Name], waveEntry)
		}
	}
	return out
}
