package verify

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// describeHolder returns the kind and name of the object that contains a record.
func describeHolder(g *lineage.StoredRecord) string {
	kind := "ControllerRevision "
	if g.Config != nil {
		kind = "OperatingSystemConfig "
	}
	return kind + key(g.Holder())
}

// hasInputDigest reports whether a record or its annotation claims to have this input digest.
func hasInputDigest(g *lineage.StoredRecord, digest string) bool {
	return g.Record.Digests.Input == digest || g.Holder().GetAnnotations()[api.AnnotationInputDigest] == digest
}

// findLiveOrLastProvenance finds the NodeProvenance of a node: of the existing Node, otherwise of the
// last node of this name. The Node decides which, since NodeProvenances can be edited or
// deleted.
func (v *Verifier) findLiveOrLastProvenance(ctx context.Context, node string) (*api.NodeProvenance, *corev1.Node, error) {
	var live corev1.Node
	exists, err := kubeclient.Find(ctx, v.Worker, types.NamespacedName{Name: node}, &live)
	if err != nil {
		return nil, nil, err
	}
	if !exists {
		np, err := v.findLastProvenance(ctx, node)
		return np, nil, err
	}
	var np api.NodeProvenance
	name := lineage.ProvenanceName(live.Name, live.UID)
	found, err := kubeclient.Find(ctx, v.Worker, types.NamespacedName{Name: name}, &np)
	if err == nil && !found {
		err = fmt.Errorf("NodeProvenance %s of the existing node %q not found: the node belongs to no pool, the controller has not written it yet, or a user deleted it", name, node)
	}
	return &np, &live, err
}

// findLastProvenance finds the NodeProvenance of the last node with a name.
func (v *Verifier) findLastProvenance(ctx context.Context, node string) (*api.NodeProvenance, error) {
	var list api.NodeProvenanceList
	if err := v.Worker.List(ctx, &list, client.MatchingLabels{api.LabelNode: api.NodeLabel(node)}); err != nil {
		return nil, fmt.Errorf("listing NodeProvenances: %w", err)
	}
	items := slices.DeleteFunc(list.Items, func(np api.NodeProvenance) bool { return np.Spec.Node.Name != node })
	if len(items) == 0 { // the label may have been edited: search all
		if err := v.Worker.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("listing NodeProvenances: %w", err)
		}
		items = slices.DeleteFunc(list.Items, func(np api.NodeProvenance) bool { return np.Spec.Node.Name != node })
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("no NodeProvenance of a node %q found: the node belongs to no pool, joined while no controller ran, or was removed longer ago than --provenance-retention", node)
	}
	slices.SortStableFunc(items, func(a, b api.NodeProvenance) int {
		return b.Spec.Node.Joined.Compare(a.Spec.Node.Joined.Time)
	})
	return &items[0], nil
}

// readConfig reads the configuration of a pool; nil if there is none.
func (v *Verifier) readConfig(ctx context.Context, pool types.NamespacedName) (*osm.OperatingSystemConfig, error) {
	var osc osm.OperatingSystemConfig
	found, err := kubeclient.Find(ctx, v.Management, types.NamespacedName{Namespace: v.Namespace, Name: lineage.NamesOf(pool).Config}, &osc)
	if err != nil || !found {
		return nil, err
	}
	return &osc, nil
}

// findRecord finds the record of an input digest: in the pool's configuration, or
// archived under the name that follows from the digest, or under another name. It is nil if
// none exists.
func (v *Verifier) findRecord(ctx context.Context, pool types.NamespacedName, digest string) (*lineage.StoredRecord, error) {
	osc, err := v.readConfig(ctx, pool)
	if err != nil {
		return nil, err
	}
	// Configurations of two pools can have the same name.
	if osc != nil && osc.Annotations[api.AnnotationPool] == pool.String() {
		if g := lineage.ConfigRecord(osc); hasInputDigest(g, digest) {
			return g, nil
		}
	}
	return lineage.FindArchivedRecord(ctx, kubeclient.Owners{v.Management}, v.Namespace, pool, digest, func(g *lineage.StoredRecord) bool {
		return hasInputDigest(g, digest)
	})
}

// digestsOfMatchingRecords finds the records of a pool that match a NodeProvenance in all but the digest.
func (v *Verifier) digestsOfMatchingRecords(ctx context.Context, s *target) ([]string, error) {
	c := s.node.Spec.Configuration
	matches := func(r render.Record) bool {
		return r.Commit == c.Commit && r.Version == c.Version && r.ObjectDigest == c.ProfileDigest
	}
	var out []string
	osc, err := v.readConfig(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	if osc != nil {
		if g := lineage.ConfigRecord(osc); g.IsIntact() && matches(g.Record) {
			out = append(out, g.Record.Digests.Input)
		}
	}
	var list appsv1.ControllerRevisionList
	err = v.Management.List(ctx, &list, client.InNamespace(v.Namespace), client.MatchingLabels{
		api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(s.pool.Namespace, s.pool.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	for i := range list.Items {
		if g := lineage.ArchivedRecord(&list.Items[i]); g.IsIntact() && matches(g.Record) {
			out = append(out, g.Record.Digests.Input)
		}
	}
	return out, nil
}

// readProfileSourceAndPool reads the other objects that prove the origin of a subject: the profile's
// object, the source that created it, and the pool.
func (v *Verifier) readProfileSourceAndPool(ctx context.Context, s *target) error {
	at := lineage.ProfileKey(v.Namespace, s.newClaimedOrigin().Object)
	var osp osm.OperatingSystemProfile
	found, err := kubeclient.Find(ctx, v.Management, at, &osp)
	if err != nil {
		return err
	}
	if found {
		s.osp = &osp
	}
	if s.from, err = v.sourceOf(ctx, at.Namespace, s); err != nil {
		return err
	}
	var md cluster.MachineDeployment
	if found, err = kubeclient.Find(ctx, v.Worker, s.pool, &md); err != nil {
		return err
	}
	if found {
		s.md = &md
	}
	return nil
}

// sourceOf finds the ProfileSource of a profile: the one that its object names, otherwise
// one with the same repository.
func (v *Verifier) sourceOf(ctx context.Context, namespace string, s *target) (*api.ProfileSource, error) {
	var list api.ProfileSourceList
	if err := v.Management.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	what := s.newClaimedOrigin()
	hasProfile := func(ps api.ProfileSource) bool {
		return slices.ContainsFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == what.Profile })
	}
	for _, fits := range []func(api.ProfileSource) bool{
		func(ps api.ProfileSource) bool { return s.osp != nil && ps.Name == s.osp.Labels[api.LabelSource] },
		func(ps api.ProfileSource) bool { return ps.Status.Repository == what.Repository && hasProfile(ps) },
		func(ps api.ProfileSource) bool { return ps.Status.Repository == what.Repository },
	} {
		if i := slices.IndexFunc(list.Items, fits); i >= 0 && what.Repository != "" {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// key returns "namespace/name".
func key(obj client.Object) string { return client.ObjectKeyFromObject(obj).String() }
