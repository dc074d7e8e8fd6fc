package profilesource

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

const (
	// namingIndex finds the pools that name a profile, pinnedIndex those of them that
	// ask for a version of it.
	namingIndex, pinnedIndex = "profile that is named", "profile that is pinned"
	// recordTrust is how long an archived record is taken to be kept after it was seen,
	// so that nobody asks for it at each look.
	recordTrust = time.Hour
)

// KnowPools adds to the manager of another cluster what makes its pools known, once its
// cache is filled: nothing here waits for that cluster.
func (r *Reconciler) KnowPools(ctx context.Context, mgr ctrl.Manager) error {
	pools := mgr.GetCache()
	if err := r.indexPools(ctx, pools); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		r.later.Store(&pools)
		return r.controller.Watch(r.pinned(pools))
	}))
}

// Know makes the pools of a cache known that is not filled yet, where nobody runs Setup.
func (r *Reconciler) Know(ctx context.Context, pools cache.Cache) error {
	if err := r.indexPools(ctx, pools); err != nil {
		return err
	}
	r.later.Store(&pools)
	return nil
}

// pools caches those that are known; nil where none are.
func (r *Reconciler) pools() cache.Cache {
	if later := r.later.Load(); later != nil {
		return *later
	}
	return r.Pools
}

// PoolReader returns a reader of the cluster of pools, or nil until that is known.
func (r *Reconciler) PoolReader() client.Reader {
	if pools := r.pools(); pools != nil {
		return pools
	}
	return nil
}

// pinned looks again at the sources of which a pool asks for a version.
func (r *Reconciler) pinned(pools cache.Cache) crsource.SyncingSource {
	return crsource.Kind(pools, &cluster.MachineDeployment{}, handler.TypedEnqueueRequestsFromMapFunc(r.sourcesOfPinned), pinChanged())
}

// indexPools prepares the cache of pools.
func (r *Reconciler) indexPools(ctx context.Context, pools cache.Cache) error {
	err := pools.IndexField(ctx, &cluster.MachineDeployment{}, namingIndex, func(obj client.Object) []string {
		return r.profileKeys(obj)
	})
	if err == nil {
		err = pools.IndexField(ctx, &cluster.MachineDeployment{}, pinnedIndex, func(obj client.Object) []string {
			if obj.GetAnnotations()[api.AnnotationVersionPin] == "" {
				return nil
			}
			return r.profileKeys(obj)
		})
	}
	if err != nil {
		return fmt.Errorf("indexing MachineDeployments by profile: %w", err)
	}
	return nil
}

// profileKeys is the "namespace/name" of the profile that a pool names.
func (r *Reconciler) profileKeys(pool client.Object) []string {
	a := pool.GetAnnotations()
	if a[api.AnnotationOSP] == "" {
		return nil
	}
	return []string{cmp.Or(a[api.AnnotationOSPNamespace], r.Namespace) + "/" + a[api.AnnotationOSP]}
}

// pins are the versions that pools ask for of a profile. A pin that cannot be read
// is the pool's to report.
func (r *Reconciler) pins(ctx context.Context, namespace, name string) ([]profile.Pin, error) {
	pools := r.pools()
	if pools == nil {
		return nil, nil
	}
	var list cluster.MachineDeploymentList
	if err := pools.List(ctx, &list, client.MatchingFields{pinnedIndex: namespace + "/" + name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pools that pin profile %q: %w", name, err)
	}
	var out []profile.Pin
	seen := map[string]bool{}
	for i := range list.Items {
		text := list.Items[i].Annotations[api.AnnotationVersionPin]
		if pin, err := profile.ParsePin(text); err == nil && !seen[text] {
			out = append(out, pin)
		}
		seen[text] = true
	}
	return out, nil
}

// named reports whether a pool names a profile. Where no pools are known, one may.
func (r *Reconciler) named(ctx context.Context, namespace, name string) (bool, error) {
	pools := r.pools()
	if pools == nil {
		return true, nil
	}
	var list cluster.MachineDeploymentList
	err := pools.List(ctx, &list, client.MatchingFields{namingIndex: namespace + "/" + name}, client.Limit(1), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing the pools that name profile %q: %w", name, err)
	}
	return len(list.Items) > 0, nil
}

// uses are the versions that configurations were made of, by what their pools name:
// the profile, or an object by its own name. Where two profiles of one name and version
// exist, both count.
type uses map[string]map[string]bool

// of reports whether a configuration was made of an object.
func (u uses) of(o *osm.OperatingSystemProfile) bool {
	return u[o.Labels[api.LabelProfile]][versionOf(o)] || u[o.Name][versionOf(o)]
}

func (r *Reconciler) used(ctx context.Context, namespace string) (uses, error) {
	var list osm.OperatingSystemConfigList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing OperatingSystemConfigs: %w", err)
	}
	out := uses{}
	for i := range list.Items {
		a := list.Items[i].Annotations
		name := a[api.AnnotationProfile]
		if out[name] == nil {
			out[name] = map[string]bool{}
		}
		out[name][a[api.AnnotationVersion]] = true
	}
	return out, nil
}

// recorded reports whether an archived record of a pool is of an object. What a
// NodeProvenance names has its record, too, or is used.
func (r *Reconciler) recorded(ctx context.Context, o *osm.OperatingSystemProfile) (bool, error) {
	for _, name := range []string{o.Labels[api.LabelProfile], o.Name} {
		if len(name) > validation.LabelValueMaxLength {
			continue // no record has such a label
		}
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
		err := r.Live.List(ctx, &list, client.InNamespace(o.Namespace), client.Limit(1), client.MatchingLabels{
			api.LabelManagedBy: api.FieldManager, api.LabelProfile: name, api.LabelVersion: profile.LabelVersion(versionOf(o)),
		})
		if err != nil {
			return false, fmt.Errorf("listing the archived records of %s, ControllerRevisions of namespace %s: %w", nameOf(o), o.Namespace, err)
		}
		if len(list.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// sourcesOfPinned maps a pool that asks for a version to the sources that may have it.
func (r *Reconciler) sourcesOfPinned(ctx context.Context, md *cluster.MachineDeployment) []crreconcile.Request {
	keys := r.profileKeys(md)
	if len(keys) == 0 || keys[0] != r.Namespace+"/"+md.Annotations[api.AnnotationOSP] {
		return nil
	}
	var list api.ProfileSourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache answers; it fails only when the controller stops
	}
	var out []crreconcile.Request
	for i := range list.Items {
		ps := &list.Items[i]
		for _, e := range ps.Status.Profiles {
			if e.Name == md.Annotations[api.AnnotationOSP] {
				out = append(out, crreconcile.Request{NamespacedName: types.NamespacedName{Namespace: ps.Namespace, Name: ps.Name}})
			}
		}
	}
	return out
}

// pinChanged passes pools that ask for a version anew.
func pinChanged() predicate.TypedPredicate[*cluster.MachineDeployment] {
	pinned := func(md *cluster.MachineDeployment) bool { return md.Annotations[api.AnnotationVersionPin] != "" }
	return predicate.TypedFuncs[*cluster.MachineDeployment]{
		CreateFunc: func(e event.TypedCreateEvent[*cluster.MachineDeployment]) bool { return pinned(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[*cluster.MachineDeployment]) bool {
			for _, key := range []string{api.AnnotationVersionPin, api.AnnotationOSP, api.AnnotationOSPNamespace} {
				if e.ObjectOld.Annotations[key] != e.ObjectNew.Annotations[key] {
					return pinned(e.ObjectNew)
				}
			}
			return false
		},
		DeleteFunc:  func(event.TypedDeleteEvent[*cluster.MachineDeployment]) bool { return false },
		GenericFunc: func(event.TypedGenericEvent[*cluster.MachineDeployment]) bool { return false },
	}
}
