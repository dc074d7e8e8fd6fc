package pools

import (
	"context"
	"maps"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// usersOfObject maps an OperatingSystemProfile to the pools to which it matters. Those
// that name it by its own name run whatever happens to it: where it goes, a built-in
// profile may take its place. Which version of a profile the others get, the inventory of
// a source says, and that starts them; the object was there before. So one that comes
// matters to them only where they look at objects themselves: see awaiting. One that goes
// matters to nobody: what uses it has it, and says so when it needs it again. One that is
// edited, as no source does, may matter to all.
//
// When the controller starts, all pools run, once all objects are known.
func (r *Reconciler) usersOfObject() handler.EventHandler {
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
				add(q, r.poolsNaming(ctx, e.Object.GetName()), r.awaiting(ctx, e.Object))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if was.GetUID() == is.GetUID() && was.GetGeneration() == is.GetGeneration() && maps.Equal(was.GetLabels(), is.GetLabels()) && maps.Equal(was.GetAnnotations(), is.GetAnnotations()) {
				return // the informer's own
			}
			add(q, r.poolsNaming(ctx, is.GetName()), r.poolsNaming(ctx, was.GetLabels()[api.LabelProfile]), r.poolsNaming(ctx, is.GetLabels()[api.LabelProfile]), r.awaiting(ctx, is))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			add(q, r.poolsNaming(ctx, e.Object.GetName()))
		},
	}
}

// awaiting finds the pools that look at an object of a version themselves: those that
// pin one, which choose among the objects; those that lack it; and those that have it,
// for it may have come back as another.
func (r *Reconciler) awaiting(ctx context.Context, obj client.Object) []crreconcile.Request {
	var out []crreconcile.Request
	for _, pool := range r.memories.lacking(r.profiles().Ref(obj.GetNamespace(), obj.GetName())) {
		out = append(out, requestFor(pool)...)
	}
	if name := obj.GetLabels()[api.LabelProfile]; name != "" {
		pinned := func(md *cluster.MachineDeployment) bool { return md.Annotations[api.AnnotationVersionPin] != "" }
		out = append(out, r.pools(ctx, pinned, client.MatchingFields{profileIndex: name})...)
	}
	return append(out, r.having(ctx, obj)...)
}

// having finds the pools whose configuration was made of an object.
func (r *Reconciler) having(ctx context.Context, obj client.Object) []crreconcile.Request {
	var configs osm.OperatingSystemConfigList // of the cache: not to be changed
	if err := r.Management.List(ctx, &configs, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing OperatingSystemConfigs") // the cache answers; it fails only when the controller stops
		return nil
	}
	version := ""
	if osp, ok := obj.(*osm.OperatingSystemProfile); ok {
		version = osp.Spec.Version
	}
	var out []crreconcile.Request
	for i := range configs.Items {
		a := configs.Items[i].Annotations
		switch a[api.AnnotationProfile] {
		case "":
		case obj.GetName():
			out = append(out, requestFor(a[api.AnnotationPool])...)
		case obj.GetLabels()[api.LabelProfile]:
			if a[api.AnnotationVersion] == version {
				out = append(out, requestFor(a[api.AnnotationPool])...)
			}
		}
	}
	return out
}
