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

// storedRecord is the record of a configuration, with the object that contains it.
type storedRecord struct {
	record render.Record
	broken error // why the record cannot be read
	// osc is the pool's configuration if it is of this generation; otherwise archived is the
	// ControllerRevision with the record.
	osc      *osm.OperatingSystemConfig
	archived *appsv1.ControllerRevision
}

// isReadable reports whether a record was found and decoded.
func (g *storedRecord) isReadable() bool { return g.broken == nil && g.record.Object != "" }

// isIntact reports whether the record is unedited: its digest matches its content.
func (g *storedRecord) isIntact() bool {
	return g.broken == nil && lineage.Intact(g.record)
}

// holder returns the object that contains the record.
func (g *storedRecord) holder() client.Object {
	if g.osc != nil {
		return g.osc
	}
	return g.archived
}

// describeHolder returns the kind and name of the holder.
func (g *storedRecord) describeHolder() string {
	kind := "ControllerRevision "
	if g.osc != nil {
		kind = "OperatingSystemConfig "
	}
	return kind + key(g.holder())
}

// recordFromConfig decodes the record in an OperatingSystemConfig.
func recordFromConfig(osc *osm.OperatingSystemConfig) *storedRecord {
	g := &storedRecord{osc: osc}
	g.record, g.broken = lineage.ParseRecordAnnotation(osc)
	return g
}

// unverifiedRecordOf decodes the record in a ControllerRevision.
func unverifiedRecordOf(obj *appsv1.ControllerRevision) *storedRecord {
	g := &storedRecord{archived: obj}
	g.record, g.broken = lineage.ParseUnverifiedRecord(obj.Data.Raw)
	return g
}

// hasInputDigest reports whether a generation claims to have this input digest.
func (g *storedRecord) hasInputDigest(digest string) bool {
	return g.record.Digests.Input == digest || g.holder().GetAnnotations()[api.AnnotationInputDigest] == digest
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
func (v *Verifier) findRecord(ctx context.Context, pool types.NamespacedName, digest string) (*storedRecord, error) {
	osc, err := v.readConfig(ctx, pool)
	if err != nil {
		return nil, err
	}
	// Configurations of two pools can have the same name.
	if osc != nil && osc.Annotations[api.AnnotationPool] == pool.String() {
		if g := recordFromConfig(osc); g.hasInputDigest(digest) {
			return g, nil
		}
	}
	for _, name := range lineage.RecordNames(pool, digest) {
		var obj appsv1.ControllerRevision
		found, err := kubeclient.Find(ctx, v.Management, types.NamespacedName{Namespace: v.Namespace, Name: name}, &obj)
		if err != nil {
			return nil, err
		}
		if g := unverifiedRecordOf(&obj); found && g.hasInputDigest(digest) {
			return g, nil
		}
	}
	return nil, nil
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
		if g := recordFromConfig(osc); g.isIntact() && matches(g.record) {
			out = append(out, g.record.Digests.Input)
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
		if g := unverifiedRecordOf(&list.Items[i]); g.isIntact() && matches(g.record) {
			out = append(out, g.record.Digests.Input)
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
