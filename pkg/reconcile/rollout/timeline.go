package rollout

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// timelineOf builds the timeline of a pool: its configuration and its archived records.
func timelineOf(have activeConfig, records []metav1.PartialObjectMetadata) lineage.Timeline {
	var archived []lineage.Generation
	for i := range records {
		archived = append(archived, lineage.GenerationsFromArchivedRecord(&records[i])...)
	}
	return lineage.Assemble(&lineage.Generation{UID: have.uid, Replaces: have.replaces, InputDigest: have.digest, From: have.created, PoolUID: have.poolUID}, archived)
}

// inputDigestOf returns the input digest of the configuration that a machine got.
func inputDigestOf(t lineage.Timeline, m waves.Machine) string {
	g, _ := t.ForMachine(m.Created, strconv.FormatUint(m.Revision, 10))
	return g.InputDigest
}

// isRevert reports whether a pool has returned to a configuration that it had before another
// one.
func isRevert(t lineage.Timeline) bool {
	var digests []string
	for _, g := range t {
		digests = append(digests, g.InputDigest)
	}
	digests = slices.Compact(digests)
	last := len(digests) - 1
	return slices.Contains(digests[:last], digests[last])
}

// recordKind is the kind of archived records.
var recordKind = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

// timelines returns the timelines of pools, by uid. It reads the records once for many
// pools, and again only when a pool has another configuration.
func (r *Reconciler) timelines(ctx context.Context, seen *observed, of []*cluster.MachineDeployment) (map[types.UID]lineage.Timeline, error) {
	out, wanted := map[types.UID]lineage.Timeline{}, map[string]*cluster.MachineDeployment{}
	for _, md := range of {
		if known, ok := r.cachedTimelines[md.UID]; ok && known[len(known)-1].UID == seen.configOf(md).uid {
			out[md.UID] = known
			continue
		}
		wanted[keyOf(md)] = md
	}
	if len(wanted) == 0 {
		return out, nil
	}
	list := kubeclient.MetadataList(recordKind) // of the cache: not to be changed
	err := r.Management.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, client.UnsafeDisableDeepCopy)
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
		t := timelineOf(seen.configOf(md), records[key])
		out[md.UID] = t
		if !t[len(t)-1].Unrecorded { // otherwise the cache can be behind
			r.cachedTimelines[md.UID] = t
		}
	}
	return out, nil
}
