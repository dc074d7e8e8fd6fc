package retention

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// Field indexes of the cache of pools: namingIndex finds the pools that name a profile,
// pinnedIndex those of them that request a version of it.
const (
	namingIndex = "profile that is named"
	pinnedIndex = "profile that is pinned"
)

// Pools answers which pools name or pin a profile. A nil *Pools knows no pools: then no
// version is pinned, and every profile counts as named.
type Pools struct {
	namespace string
	cache     atomic.Pointer[cache.Cache]
}

// NewPools returns Pools without a cache. The namespace is that of the profiles of pools
// that name no namespace.
func NewPools(namespace string) *Pools { return &Pools{namespace: namespace} }

// UseCache indexes a cache that has not been started yet, and reads pools from it.
func (p *Pools) UseCache(ctx context.Context, pools cache.Cache) error {
	if err := p.Index(ctx, pools); err != nil {
		return err
	}
	p.SetCache(pools)
	return nil
}

// SetCache sets the indexed cache from which pools are read from now on.
func (p *Pools) SetCache(pools cache.Cache) { p.cache.Store(&pools) }

// Reader reads the cluster of the pools. It is nil as long as no cache is known.
func (p *Pools) Reader() client.Reader {
	if pools := p.Cache(); pools != nil {
		return pools
	}
	return nil
}

// Cache returns the cache, nil as long as none is known.
func (p *Pools) Cache() cache.Cache {
	if p == nil {
		return nil
	}
	if pools := p.cache.Load(); pools != nil {
		return *pools
	}
	return nil
}

// awaited reports whether there are pools whose cache is not known yet.
func (p *Pools) awaited() bool { return p != nil && p.Cache() == nil }

// Index adds the field indexes to a cache.
func (p *Pools) Index(ctx context.Context, pools cache.Cache) error {
	err := pools.IndexField(ctx, &cluster.MachineDeployment{}, namingIndex, p.ProfileKeys)
	if err == nil {
		err = pools.IndexField(ctx, &cluster.MachineDeployment{}, pinnedIndex, func(obj client.Object) []string {
			if obj.GetAnnotations()[api.AnnotationVersionPin] == "" {
				return nil
			}
			return p.ProfileKeys(obj)
		})
	}
	if err != nil {
		return fmt.Errorf("indexing MachineDeployments by profile: %w", err)
	}
	return nil
}

// ProfileKeys returns the "namespace/name" of the profile that a pool names, if any.
func (p *Pools) ProfileKeys(pool client.Object) []string {
	a := pool.GetAnnotations()
	if a[api.AnnotationOSP] == "" {
		return nil
	}
	return []string{cmp.Or(a[api.AnnotationOSPNamespace], p.namespace) + "/" + a[api.AnnotationOSP]}
}

// pins returns the versions that pools request of a profile. It skips a pin that cannot be
// parsed, because the pool's own controller reports it.
func (p *Pools) pins(ctx context.Context, namespace, name string) ([]version.Pin, error) {
	pools := p.Cache()
	if pools == nil {
		return nil, nil
	}
	var list cluster.MachineDeploymentList
	if err := pools.List(ctx, &list, client.MatchingFields{pinnedIndex: namespace + "/" + name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pools that pin profile %q: %w", name, err)
	}
	var out []version.Pin
	seen := map[string]bool{}
	for i := range list.Items {
		text := list.Items[i].Annotations[api.AnnotationVersionPin]
		if pin, err := version.ParsePin(text); err == nil && !seen[text] {
			out = append(out, pin)
		}
		seen[text] = true
	}
	return out, nil
}

// isPossiblyNamedByPool reports whether a pool names a profile. As long as no pools are known, one may.
func (p *Pools) isPossiblyNamedByPool(ctx context.Context, namespace, name string) (bool, error) {
	pools := p.Cache()
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

// PinAddedOrChanged passes pools that request another version than before.
func PinAddedOrChanged() predicate.TypedPredicate[*cluster.MachineDeployment] {
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
