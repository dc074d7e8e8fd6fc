package pools

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// checkObjectOwnership returns an error if an object with a name of this pool belongs to another
// owner. The names of objects are ambiguous: see conflictingPool.
func checkObjectOwnership(seen *observed) error {
	name := namesOf(seen.md).Provisioning
	if seen.desired.Pool.HasEdgeScript() {
		name = namesOf(seen.md).EdgeScript
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return fault.Reject("the Secret %s would have a name of %d characters, and %d are allowed: use a shorter name or namespace for the pool", name, len(name), validation.DNS1123SubdomainMaxLength)
	}
	for _, obj := range seen.objects.listExisting() {
		owner := lineage.PoolOf(obj)
		if seen.owns(obj) || owner == "" && slices.Contains([]string{namesOf(seen.md).Kubeconfig, namesOf(seen.md).EdgeScript, lineage.AccessName(keyOf(seen.md))}, obj.GetName()) {
			continue
		}
		if owner == "" && seen.mayTakeOver(obj) {
			continue
		}
		err := fmt.Errorf("%s/%s belongs to MachineDeployment %s, whose name and namespace make the same object names as those of %s: rename one of the two", obj.GetNamespace(), obj.GetName(), owner, poolKey(seen.md))
		if owner == "" {
			err = unownedObjectError(obj, seen.conflicts)
		}
		return &fault.Rejection{Reason: api.EventNameCollision, Err: err}
	}
	return nil
}

// unownedObjectError returns the error that explains why an object without an owner is not taken
// over.
func unownedObjectError(obj client.Object, conflicts []conflictingPool) error {
	for _, conflict := range conflicts {
		if takeover.IsCreatedByOSM(obj) && conflict.sharesObjectName(obj) {
			return fmt.Errorf("%s/%s was created by another controller, and it is not clear if it belongs to this pool or to MachineDeployment %s, whose name and namespace make the same object names: rename one of the two", obj.GetNamespace(), obj.GetName(), poolKey(conflict.md))
		}
	}
	return fmt.Errorf("%s/%s exists and was not made for a pool: it has not the annotations of one. Delete it once no machine needs it", obj.GetNamespace(), obj.GetName())
}

// conflictingPool is another pool whose objects have some of the same names, because operating-system-manager
// joins name and namespace: pool "a-b" of namespace "c" for pool "a" of "b-c", and pool "c-a" of "b" as well.
type conflictingPool struct {
	md       *cluster.MachineDeployment
	names    []string // that both have, as lineage.ObjectNames
	progress progress
}

// sharesObjectName reports whether an object has a name of both pools.
func (r conflictingPool) sharesObjectName(obj client.Object) bool {
	switch obj.(type) {
	case *osm.OperatingSystemConfig:
		return slices.Contains(r.names, lineage.ConfigPrefix+obj.GetName())
	case *corev1.Secret:
		return slices.Contains(r.names, lineage.SecretPrefix+obj.GetName())
	}
	return false
}

// progress says which objects of a pool exist. If two pools share a name, the one with more progress has
// it; with equal progress, the older one.
type progress int

const (
	// progressNew has nothing that a machine can boot from.
	progressNew progress = iota
	// progressBegun has a configuration or a provisioning document of ours.
	progressBegun
	// progressLegacy has a bootstrap document of the reference.
	progressLegacy
	// progressServed has a bootstrap document of ours.
	progressServed
)

func progressOf(md *cluster.MachineDeployment, have objects) progress {
	seen := &observed{md: md}
	owns := func(obj client.Object, exists bool) bool { return exists && seen.owns(obj) }
	switch {
	case owns(have.bootstrap, have.bootstrap != nil):
		return progressServed
	case have.bootstrap != nil && takeover.IsCreatedByOSM(have.bootstrap):
		return progressLegacy
	case owns(have.osc, have.osc != nil), owns(have.provisioning, have.provisioning != nil):
		return progressBegun
	}
	return progressNew
}

// conflictingPools are the other pools that share a name with a pool. They are listed only if it
// matters: if objects have no owner, and as long as a pool has no bootstrap Secret.
func (r reader) conflictingPools(ctx context.Context, seen *observed) ([]conflictingPool, error) {
	if bootstrap := seen.objects.bootstrap; bootstrap != nil && seen.owns(bootstrap) && !slices.ContainsFunc(seen.objects.listExisting(), func(obj client.Object) bool { return takeover.IsCreatedByOSM(obj) }) {
		return nil, nil
	}
	out, err := r.poolsSharingNames(ctx, seen.md)
	for i := range out {
		have, failed := r.objects(ctx, r.cached(), out[i].md)
		if failed != nil {
			return nil, failed
		}
		out[i].progress = progressOf(out[i].md, have)
	}
	return out, err
}

// poolsSharingNames lists the other pools that have a derived name in common with a pool.
func (r reader) poolsSharingNames(ctx context.Context, md *cluster.MachineDeployment) ([]conflictingPool, error) {
	candidates := []client.ListOption{client.UnsafeDisableDeepCopy}
	searches := [][]client.ListOption{candidates}
	if r.indexed {
		searches = nil
		for _, stem := range lineage.StemsOfCollidingPools(keyOf(md)) {
			searches = append(searches, append(slices.Clone(candidates), client.MatchingFields{stemIndex: stem}))
		}
	}
	names, found := lineage.ObjectNames(keyOf(md)), map[string]conflictingPool{}
	for _, opts := range searches {
		var list cluster.MachineDeploymentList // of the cache: not to be changed
		if err := r.worker.List(ctx, &list, opts...); err != nil {
			return nil, fmt.Errorf("listing MachineDeployments by the names of what is made for them: %w", err)
		}
		for i := range list.Items {
			other := &list.Items[i]
			if poolKey(other) == poolKey(md) || !requestsProfile(other) {
				continue
			}
			if both := intersectStrings(names, lineage.ObjectNames(keyOf(other))); len(both) > 0 {
				found[poolKey(other)] = conflictingPool{md: other, names: both}
			}
		}
	}
	out := make([]conflictingPool, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out, nil
}

// isNameShared reports whether another pool has a derived name of this pool too.
func (r reader) isNameShared(ctx context.Context, md *cluster.MachineDeployment, name string) (bool, error) {
	conflicts, err := r.poolsSharingNames(ctx, md)
	return slices.ContainsFunc(conflicts, func(other conflictingPool) bool { return slices.Contains(other.names, name) }), err
}

// intersectStrings are the texts that two lists have.
func intersectStrings(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// yieldsTo finds the conflicting pool that has the names instead of this pool; nil if there is none. Objects
// of OSM under a name of both pools identify their pool themselves.
func (seen *observed) yieldsTo() *conflictingPool {
	ownProgress := progressOf(seen.md, seen.objects)
	// Machines can have booted from the objects of a served pool, so it never yields.
	if ownProgress == progressServed {
		return nil
	}
	for i := range seen.conflicts {
		conflict := &seen.conflicts[i]
		if !isPool(conflict.md) || ownProgress == progressLegacy && conflict.sharesObjectName(seen.objects.bootstrap) {
			continue
		}
		// Both pools compute the same order, so exactly one of them yields.
		if conflict.progress > ownProgress || conflict.progress == ownProgress && isOlder(conflict.md, seen.md) {
			return conflict
		}
	}
	return nil
}

// conflictError is the error for a pool that yields to another.
func (r conflictingPool) conflictError(md *cluster.MachineDeployment, ownProgress progress) error {
	why := "which is older"
	if r.progress > ownProgress {
		why = "which has its configuration already"
	}
	return &fault.Rejection{Reason: api.EventNameCollision,
		Err: fmt.Errorf("MachineDeployment %s, %s, and MachineDeployment %s have names and namespaces that make the same name, %s: rename one of the two", poolKey(r.md), why, poolKey(md), r.names[0])}
}

// owns reports whether an object was made for the pool, even if its owner was edited.
func (seen *observed) owns(obj client.Object) bool {
	uid, ok := obj.GetAnnotations()[api.AnnotationPoolUID]
	return lineage.PoolOf(obj) == poolKey(seen.md) || ok && uid == string(seen.md.UID)
}

// objectsToYield finds the objects that were created for a pool that yields to another and has nothing
// to boot from: otherwise each of the two could wait forever for an object that the other has.
// It reads from the API server, because the cache can be stale and a machine can have used them.
func (r reader) objectsToYield(ctx context.Context, seen *observed) ([]client.Object, error) {
	if seen.yieldsTo() == nil || progressOf(seen.md, seen.objects) >= progressLegacy {
		return nil, nil
	}
	made, err := r.listOwned(ctx, r.cached(), seen.md)
	if err != nil || len(made) == 0 {
		return nil, err
	}
	if made, err = r.listOwned(ctx, r.live(), seen.md); err != nil {
		return nil, err
	}
	made = slices.DeleteFunc(made, func(obj client.Object) bool { return lineage.PoolOf(obj) == "" }) // created by OSM
	bootstrap := namesOf(seen.md).Bootstrap
	// Machines can have started from a bootstrap Secret that the cache did not have yet.
	if slices.ContainsFunc(made, func(obj client.Object) bool { return obj.GetName() == bootstrap }) {
		return nil, fmt.Errorf("%w: Secret %s exists", fault.ErrRaced, bootstrap)
	}
	return made, nil
}

// isOlder reports whether a was created before b; the UID decides if both are of the same age.
func isOlder(a, b *cluster.MachineDeployment) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
