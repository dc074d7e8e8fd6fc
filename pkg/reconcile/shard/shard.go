// Package shard says which objects are those of one controller, where several share a
// cluster.
//
// Each sees everything, since what may be removed depends on all that is in use, and
// writes about its own objects only: ProfileSources and MachineDeployments that a label
// selector chooses, as Flux's controllers take one (--watch-label-selector).
package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// A Shard is one controller's part of the objects. The zero value is all of them.
type Shard struct {
	selector labels.Selector
	text     string // as it was written
}

// Parse reads a label selector in the form that kubectl's --selector takes. An empty one
// is the zero Shard.
func Parse(selector string) (Shard, error) {
	s, err := labels.Parse(selector)
	if err != nil {
		return Shard{}, fmt.Errorf("%q is no label selector: write one like gitops.k8c.io/shard=a or !gitops.k8c.io/shard: %w", selector, err)
	}
	if s.Empty() {
		return Shard{}, nil
	}
	return Shard{selector: s, text: selector}, nil
}

// Whole reports whether all objects are in the shard.
func (s Shard) Whole() bool { return s.selector == nil }

// Holds reports whether an object is in the shard.
func (s Shard) Holds(obj client.Object) bool {
	return s.Whole() || s.selector.Matches(labels.Set(obj.GetLabels()))
}

// Rest reports whether objects without labels are in the shard. What belongs to no
// object, such as the ProfileSource of the built-in profiles, is that controller's.
func (s Shard) Rest() bool { return s.Whole() || s.selector.Matches(labels.Set{}) }

// Lease is the name of the lease that only one controller of this shard holds: the given
// one for the shard with the rest, so that it excludes a controller without shards, and
// else one with the first eight hexadecimal digits of the SHA-256 of the selector as it was
// written, which is the same in all replicas of a shard.
func (s Shard) Lease(name string) string {
	if s.Rest() {
		return name
	}
	sum := sha256.Sum256([]byte(s.text))
	return name + LeaseInfix + hex.EncodeToString(sum[:4])
}

// LeaseInfix stands between the name of the lease of a controller without shards and
// those digits.
const LeaseInfix = "-shard-"

// Moved passes objects that came into the shard or left it.
func (s Shard) Moved() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld != nil && e.ObjectNew != nil && s.Holds(e.ObjectOld) != s.Holds(e.ObjectNew)
		},
	}
}
