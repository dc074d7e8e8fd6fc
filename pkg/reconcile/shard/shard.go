// Package shard selects the objects of one controller, if several controllers share a
// cluster.
//
// Each controller reads all objects, because what can be removed depends on everything in
// use, but writes only for its own objects: ProfileSources and MachineDeployments that
// match a label selector, as in Flux's controllers (--watch-label-selector).
package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// A Shard is one controller's part of the objects. The zero value contains all of them.
type Shard struct {
	selector labels.Selector
	text     string // as written by the user
}

// Parse parses a label selector in the format of kubectl's --selector. An empty one is
// the zero Shard.
func Parse(selector string) (Shard, error) {
	s, err := labels.Parse(selector)
	if err != nil {
		return Shard{}, fmt.Errorf("invalid label selector %q: write one such as gitops.k8c.io/shard=a or !gitops.k8c.io/shard: %w", selector, err)
	}
	if s.Empty() {
		return Shard{}, nil
	}
	return Shard{selector: s, text: selector}, nil
}

// IsAll reports whether all objects are in the shard.
func (s Shard) IsAll() bool { return s.selector == nil }

// Includes reports whether an object is in the shard.
func (s Shard) Includes(obj client.Object) bool {
	return s.IsAll() || s.selector.Matches(labels.Set(obj.GetLabels()))
}

// IncludesUnlabeled reports whether objects without labels are in the shard. That controller also
// handles what belongs to no object, such as the ProfileSource of the built-in profiles.
func (s Shard) IncludesUnlabeled() bool { return s.IsAll() || s.selector.Matches(labels.Set{}) }

// LeaseName returns the name of the lease that only one controller of this shard can hold:
// the given name for the shard that includes objects without labels, so that it excludes
// a controller without shards, and otherwise the name with the first eight hexadecimal
// digits of the SHA-256 of the selector as written by the user, which is the same in all
// replicas of a shard.
func (s Shard) LeaseName(name string) string {
	if s.IncludesUnlabeled() {
		return name
	}
	sum := sha256.Sum256([]byte(s.text))
	return name + api.ShardLeaseInfix + hex.EncodeToString(sum[:4])
}

// MembershipChanged passes events of objects that enter or leave the shard.
func (s Shard) MembershipChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld != nil && e.ObjectNew != nil && s.Includes(e.ObjectOld) != s.Includes(e.ObjectNew)
		},
	}
}
