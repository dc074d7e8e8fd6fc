package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// within reports whether the pool certainly had a generation at some time between two
// times.
func within(g lineage.Generation, from, until time.Time) bool {
	return g.From.Add(lineage.Leeway).Before(until) && (g.Until.IsZero() || g.CertainEnd().After(from))
}

// covers reports whether the pool certainly had this generation throughout an interval. Its Secrets are
// written after its OperatingSystemConfig, so the first moments are not certain.
func covers(g lineage.Generation, from, until time.Time) bool {
	return g.From.Add(lineage.Leeway).Before(from) && g.CertainEnd().After(until)
}

// readTimeline reads the generations of a pool.
func (v *Verifier) readTimeline(ctx context.Context, s *target) (lineage.Timeline, error) {
	list := kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	err := v.Management.List(ctx, list, client.InNamespace(v.Namespace), client.MatchingLabels{
		api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(s.pool.Namespace, s.pool.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	isOther := func(obj metav1.Object) bool { return obj.GetAnnotations()[api.AnnotationPool] != s.pool.String() }
	records := slices.DeleteFunc(list.Items, func(record metav1.PartialObjectMetadata) bool { return isOther(&record) })
	osc, err := v.readConfig(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	if osc == nil || isOther(osc) {
		return lineage.NewTimeline(nil, records), nil
	}
	return lineage.NewTimeline(osc, records), nil
}

// compareHistory compares a NodeProvenance with all generations of its pool that it does not list as
// possible.
func (s *target) compareHistory(had lineage.Timeline) *Difference {
	np := s.node.Spec
	from := np.Window.Until.Time
	if np.Window.From != nil {
		from = np.Window.From.Time
	}
	until := np.Window.Until.Time
	isTarget := func(p lineage.Generation) bool { return p.InputDigest == s.digest }
	began := metav1.NewTime(from)
	window := api.ProvenanceWindow{From: &began, Until: np.Window.Until}
	near := func(p lineage.Generation) bool { return isTarget(p) && p.WasCurrentDuring(window, lineage.Bridge) }
	if slices.ContainsFunc(had, isTarget) && !slices.ContainsFunc(had, near) {
		for _, p := range had { // only what is certain, because the target can have been created again
			if covers(p, from, until) {
				return newDifference("spec.configuration.inputDigest", 0, p.InputDigest+", which the pool had at that time", s.digest)
			}
		}
	}
	// A list that has reached its limit is incomplete.
	if np.Evidence != api.EvidenceInferred || len(np.Possible) >= lineage.MaxPossible {
		return nil
	}
	for _, p := range had {
		listed := func(l api.PossibleConfiguration) bool { return l.InputDigest == p.InputDigest }
		if !isTarget(p) && within(p, from, until) && !lineage.IsOlderRevision(p.Revision, np.Pool.Revision) && !slices.ContainsFunc(np.Possible, listed) {
			return newDifference("spec.possible", 0, p.InputDigest+", which the pool had until "+p.Until.UTC().Format(time.RFC3339), "not listed")
		}
	}
	return nil
}

// comparePossible compares the listed generations with the records of the same digests.
// Some records may be deleted: a record is retained for the nodes that were provisioned
// from it. The result is a doubt if one began before its OperatingSystemConfig was created.
func (s *target) comparePossible(had lineage.Timeline) (d *Difference, doubt string) {
	for i, l := range s.node.Spec.Possible {
		at := fmt.Sprintf("spec.possible[%d].", i)
		same := slices.DeleteFunc(slices.Clone(had), func(p lineage.Generation) bool { return p.InputDigest != l.InputDigest })
		if len(same) == 0 {
			continue
		}
		p := same[0]
		if d := firstMismatch(field{at + "profile", p.Profile, l.Profile}, field{at + "version", p.Version, l.Version}, field{at + "commit", p.Commit, l.Commit}); d != nil {
			return d, ""
		}
		isRecorded := func(p lineage.Generation) bool { return p.Until.IsZero() || p.From.Equal(l.From.Time) }
		canBeAgain := func(p lineage.Generation) bool {
			return p.From.After(l.From.Time) && had.CanPrecedeCreation(p, l.From.Time)
		}
		switch {
		case slices.ContainsFunc(same, isRecorded):
		case slices.ContainsFunc(same, canBeAgain):
			doubt = at + "from is before the OperatingSystemConfig of that configuration was created: it was created again, a record is missing, or the field was edited"
		default:
			return newDifference(at+"from", 0, p.From.UTC().Format(time.RFC3339), l.From.UTC().Format(time.RFC3339)), ""
		}
	}
	return nil, doubt
}
