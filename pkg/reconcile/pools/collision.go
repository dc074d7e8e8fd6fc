package pools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// collision finds an object of the pool's names that belongs to somebody else.
// The contract's names are ambiguous: pool "a" of namespace "b-c" and pool "a-b"
// of "c" have the same (security.md 25).
func collision(seen *observed) error {
	name := userDataName(seen.md, stageProvision)
	if seen.desired.Pool.HasEdgeScript() {
		name = edgeName(seen.md)
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return refuse("the Secret %s would have a name of %d characters, and %d are allowed: use a shorter name or namespace for the pool", name, len(name), validation.DNS1123SubdomainMaxLength)
	}
	for _, obj := range seen.objects.all() {
		owner := ownerOf(obj)
		if seen.owns(obj) || owner == "" && slices.Contains([]string{kubeconfigName(seen.md), edgeName(seen.md), accessName(seen.md)}, obj.GetName()) {
			continue
		}
		if owner == "" && seen.mayTakeOver(obj) {
			continue
		}
		err := fmt.Errorf("%s/%s belongs to MachineDeployment %s, whose name and namespace make the same object names: rename one of the two", obj.GetNamespace(), obj.GetName(), owner)
		if owner == "" {
			err = unowned(obj, seen.rivals)
		}
		return &refusedError{reason: api.EventNameCollision, err: err}
	}
	return nil
}

// unowned says why an object that nobody owns is not taken over.
func unowned(obj client.Object, rivals []*cluster.MachineDeployment) error {
	if byReference(obj) {
		return fmt.Errorf("%s/%s was made by another controller, and cannot be told to be this pool's and not MachineDeployment %s's, whose name and namespace make the same object names: rename one of the two", obj.GetNamespace(), obj.GetName(), poolKey(rivals[0]))
	}
	return fmt.Errorf("%s/%s exists and was not made for a pool: it has not the annotations of one. Delete it once no machine needs it", obj.GetNamespace(), obj.GetName())
}

// rivals are the other pools that the contract would give the same names: pool "a-b" of
// namespace "c" for pool "a" of "b-c". They are asked for only where it matters: where
// objects have no owner, and as long as a pool has no bootstrap Secret.
func (r *Reconciler) rivals(ctx context.Context, seen *observed) ([]*cluster.MachineDeployment, error) {
	if b := seen.objects.bootstrap; b != nil && seen.owns(b) && !slices.ContainsFunc(seen.objects.all(), byReference) {
		return nil, nil
	}
	var out []*cluster.MachineDeployment
	names := seen.md.Name + "-" + seen.md.Namespace
	for i := range names {
		key := types.NamespacedName{Name: names[:i], Namespace: names[min(i+1, len(names)):]}
		if names[i] != '-' || key == client.ObjectKeyFromObject(seen.md) || key.Name == "" || key.Namespace == "" || strings.Contains(key.Namespace, ".") {
			continue
		}
		md := &cluster.MachineDeployment{}
		found, err := get(ctx, r.Worker, key, md)
		if err != nil {
			return nil, err
		}
		if found && asks(md) {
			out = append(out, md)
		}
	}
	return out, nil
}

// giveWay decides between two new pools of the same names: the younger one takes back
// what it has made, or else each might have what the other lacks, for ever. Whoever has
// its configuration and its provisioning Secret is new no more, and the other one, which
// has neither, takes back the rest, which would be in its way.
func (r *Reconciler) giveWay(ctx context.Context, seen *observed) error {
	have := seen.objects
	if len(seen.rivals) == 0 || have.bootstrap != nil && (ownerOf(have.bootstrap) == "" || seen.owns(have.bootstrap)) {
		return nil
	}
	owner := func(obj client.Object) string {
		if seen.owns(obj) {
			return poolKey(seen.md)
		}
		return ownerOf(obj)
	}
	owners := map[string]bool{}
	if have.osc != nil {
		owners[owner(have.osc)] = true
	}
	if have.provisioning != nil {
		owners[owner(have.provisioning)] = true
	}
	for _, rival := range seen.rivals {
		ours, theirs := owners[poolKey(seen.md)], owners[poolKey(rival)]
		if !isPool(rival) || len(owners) > 0 && !theirs || ours == theirs && !before(rival, seen.md) {
			continue
		}
		if err := r.takeBack(ctx, seen.md); err != nil {
			return err
		}
		if theirs && !ours {
			return nil // which is a collision
		}
		return &refusedError{reason: api.EventNameCollision,
			err: fmt.Errorf("MachineDeployment %s, which is older, has a name and namespace that make the same object names: rename one of the two", poolKey(rival))}
	}
	return nil
}

// owns reports whether an object was made for the pool, even if its owner was edited.
func (seen *observed) owns(obj client.Object) bool {
	uid, ok := obj.GetAnnotations()[api.AnnotationPoolUID]
	return ownerOf(obj) == poolKey(seen.md) || ok && uid == string(seen.md.UID)
}

// takeBack deletes what was made for a pool that nobody has used. The cache may be behind:
// the API server knows whether somebody may have.
func (r *Reconciler) takeBack(ctx context.Context, md *cluster.MachineDeployment) error {
	made, err := r.owned(ctx, r.cached(), md)
	if err != nil || len(made) == 0 {
		return err
	}
	if made, err = r.owned(ctx, r.live(), md); err != nil {
		return err
	}
	made = slices.DeleteFunc(made, func(obj client.Object) bool { return ownerOf(obj) == "" }) // the reference's
	if slices.ContainsFunc(made, func(obj client.Object) bool { return obj.GetName() == BootstrapName(md) }) {
		return fmt.Errorf("%w: Secret %s is there", errRaced, BootstrapName(md))
	}
	for _, obj := range made {
		if err := r.remove(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// before orders pools by age.
func before(a, b *cluster.MachineDeployment) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
