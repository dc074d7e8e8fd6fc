package rollout

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// generation is a configuration that a pool had for a time.
type generation struct {
	uid      types.UID // of the OperatingSystemConfig
	replaces types.UID // the OperatingSystemConfig that it came in place of
	digest   string    // of the input
	revision uint64    // of the MachineDeployment, at its end; 0 where that is not known
	from     time.Time
	until    time.Time // zero: the pool has it
}

// interval is what orders the generation among others.
func (g generation) interval() api.Interval {
	return api.Interval{From: metav1.NewTime(g.from), Until: metav1.NewTime(g.until), UID: g.uid, Replaces: g.replaces}
}

// past are the configurations that a pool had, and has, oldest first.
type past []generation

// pastOf orders what is known of a pool: its configuration, and the intervals of its
// archived records. Of those the ends are the controller's times, whose clock may be
// wrong: none lasts longer than until the next begins.
func pastOf(have standing, records []metav1.PartialObjectMetadata) past {
	var out past
	for i := range records {
		a := records[i].Annotations
		if a[api.AnnotationInputDigest] == "" {
			continue // edited by hand
		}
		for _, in := range lineage.DecodeIntervals(a) {
			if in.UID != have.uid { // or its deletion was not done yet
				out = append(out, generation{in.UID, in.Replaces, a[api.AnnotationInputDigest], revisionOf(in.Revision), in.From.Time, in.Until.Time})
			}
		}
	}
	lineage.Sort(out, generation.interval)
	out = append(out, generation{uid: have.uid, replaces: have.replaces, digest: have.digest, from: have.created})
	for i := range out[:len(out)-1] {
		if next := out[i+1].from; next.Before(out[i].until) {
			out[i].until = next
		}
	}
	return out
}

// madeWith is what a machine was given: what its pool had when it was created, or got
// first after that, for without documents a machine waits. It is given those of the
// revision of its MachineSet alone (contract: section 12.1), so that what ended under an
// earlier one it did not get.
func (p past) madeWith(m machine) string {
	for _, g := range p[:len(p)-1] {
		if g.until.After(m.created) && (g.revision == 0 || g.revision >= m.revision) {
			return g.digest
		}
	}
	return p[len(p)-1].digest
}

// knows reports whether there is a record of a configuration.
func (p past) knows(uid types.UID) bool {
	return slices.ContainsFunc(p, func(g generation) bool { return g.uid == uid })
}

// recordKind is the kind of archived records.
var recordKind = appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList")

// pasts finds the past of pools, by uid. It reads the records once for many pools, and
// not again before a pool has another configuration.
func (r *Reconciler) pasts(ctx context.Context, seen *observed, of []*cluster.MachineDeployment) (map[types.UID]past, error) {
	out, wanted := map[types.UID]past{}, map[string]*cluster.MachineDeployment{}
	for _, md := range of {
		if known, ok := r.known[md.UID]; ok && known[len(known)-1].uid == seen.configOf(md).uid {
			out[md.UID] = known
			continue
		}
		wanted[keyOf(md)] = md
	}
	if len(wanted) == 0 {
		return out, nil
	}
	var list metav1.PartialObjectMetadataList // of the cache: not to be changed
	list.SetGroupVersionKind(recordKind)
	err := r.Management.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the archived records of pools: %w", err)
	}
	records := map[string][]metav1.PartialObjectMetadata{}
	for _, record := range list.Items {
		if pool := record.Annotations[api.AnnotationPool]; wanted[pool] != nil {
			records[pool] = append(records[pool], record)
		}
	}
	for key, md := range wanted {
		have := seen.configOf(md)
		made := pastOf(have, records[key])
		out[md.UID] = made
		if have.replaces == "" || made.knows(have.replaces) { // else the cache may be behind
			r.known[md.UID] = made
		}
	}
	return out, nil
}
