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

// holds reports whether the pool certainly had a generation at a time. Its Secrets are written after its
// OperatingSystemConfig, so the first moments are not certain.
func holds(g lineage.Generation, at time.Time) bool {
	return g.From.Add(lineage.Leeway).Before(at) && (g.Until.IsZero() || g.CertainEnd().After(at))
}

// hadOthersThroughout reports whether the pool certainly had other generations than those of a digest
// throughout an interval.
func hadOthersThroughout(had lineage.Timeline, digest string, from, until time.Time) bool {
	var since time.Time
	for i, g := range had {
		continues := i > 0 && had[i-1].InputDigest != digest && had[i-1].CertainEnd().Add(lineage.Leeway).Equal(g.From)
		if !continues {
			since = g.From.Add(lineage.Leeway)
		}
		if g.InputDigest != digest && since.Before(from) && holds(g, until) {
			return true
		}
	}
	return false
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

// compareHistory compares a NodeProvenance with all generations of its pool: those that it does not list as
// possible, and the one that the pool had when the machine was created.
func (s *target) compareHistory(had lineage.Timeline) *Difference {
	np := s.node.Spec
	from, until := np.Window.Until.Time, np.Window.Until.Time
	if np.Window.From != nil {
		from = np.Window.From.Time
	}
	isTarget := func(p lineage.Generation) bool { return p.InputDigest == s.digest }
	isCandidate := func(p lineage.Generation) bool {
		return within(p, from, until) && !lineage.IsOlderRevision(p.Revision, np.Pool.Revision)
	}
	// A report of one that ended before is not explained by the others.
	if np.Evidence == api.EvidenceReported && !slices.ContainsFunc(had, func(p lineage.Generation) bool { return isTarget(p) && isCandidate(p) }) {
		return nil
	}
	for _, p := range had {
		listed := func(l api.PossibleConfiguration) bool { return l.InputDigest == p.InputDigest }
		// A list that has reached its limit is incomplete.
		if len(np.Possible) < lineage.MaxPossible && !isTarget(p) && isCandidate(p) && !slices.ContainsFunc(np.Possible, listed) {
			return newDifference("spec.possible", 0, p.InputDigest+", which the pool had then", "not listed")
		}
	}
	isFirst := func(p lineage.Generation) bool { return isCandidate(p) && holds(p, from) }
	i := slices.IndexFunc(had, isFirst)
	if i < 0 || np.Window.From == nil {
		return nil
	}
	first := had[i].InputDigest + ", which the pool had when the machine was created"
	if np.Bootstrap.InputDigest != had[i].InputDigest {
		return newDifference("spec.bootstrap.inputDigest", 0, first, np.Bootstrap.InputDigest)
	}
	if np.Evidence == api.EvidenceInferred && !isTarget(had[i]) {
		return newDifference("spec.configuration.inputDigest", 0, first, s.digest)
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
