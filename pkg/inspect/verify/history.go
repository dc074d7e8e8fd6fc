package verify

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// span is a time in which a pool had a configuration, as its records say.
type span struct {
	digest, profile, version, commit, revision string

	from  time.Time
	until time.Time // zero: the pool has it

	uid, replaces types.UID // of OperatingSystemConfigs
}

// interval is what orders the span among others.
func (p span) interval() api.Interval {
	return api.Interval{From: metav1.NewTime(p.from), Until: metav1.NewTime(p.until), UID: p.uid, Replaces: p.replaces}
}

// within reports whether the pool certainly had it at some time between two.
func (p span) within(from, until time.Time) bool {
	return p.from.Add(leeway).Before(until) && (p.until.IsZero() || p.until.Add(-leeway).After(from))
}

// covers reports whether the pool certainly had nothing else between two times.
func (p span) covers(from, until time.Time) bool {
	return p.from.Add(leeway).Before(from) && !p.until.IsZero() && p.until.Add(-leeway).After(until)
}

// spans are the times of a pool's configurations, oldest first. One that says that it
// ended after the next began ended then: the ends are of another clock.
func (v *Verifier) spans(ctx context.Context, s *subject) ([]span, error) {
	var list appsv1.ControllerRevisionList
	err := v.Management.List(ctx, &list, client.InNamespace(v.Namespace), client.MatchingLabels{
		api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(s.pool.Namespace, s.pool.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	var out []span
	for i := range list.Items {
		a := list.Items[i].Annotations
		if a[api.AnnotationPool] != s.pool.String() {
			continue
		}
		for _, in := range lineage.DecodeIntervals(a) {
			out = append(out, span{
				digest: a[api.AnnotationInputDigest], profile: a[api.AnnotationProfile], version: a[api.AnnotationVersion], commit: a[api.AnnotationCommit],
				revision: in.Revision, from: in.From.Time, until: in.Until.Time, uid: in.UID, replaces: in.Replaces,
			})
		}
	}
	osc, err := v.config(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	if osc != nil && osc.Annotations[api.AnnotationPool] == s.pool.String() {
		if g := generationIn(osc); g.sound() {
			r := g.record
			out = append(out, span{
				digest: r.Digests.Input, profile: r.Profile, version: r.Version, commit: r.Commit, revision: osc.Annotations[api.AnnotationRevisionFor],
				from: osc.CreationTimestamp.Time, uid: osc.UID, replaces: types.UID(osc.Annotations[api.AnnotationReplaces]),
			})
		}
	}
	lineage.Sort(out, span.interval)
	for i := range out {
		if i+1 < len(out) && (out[i].until.IsZero() || out[i].until.After(out[i+1].from)) {
			out[i].until = out[i+1].from
		}
	}
	return out, nil
}

// compareHistory compares what is written of a node with all that its pool had: the
// configurations that are listed as possible, and those that are not.
func (v *Verifier) compareHistory(ctx context.Context, s *subject) (*Difference, error) {
	had, err := v.spans(ctx, s)
	if err != nil {
		return nil, err
	}
	if d := s.comparePossible(had); d != nil {
		return d, nil
	}
	np := s.node.Spec
	from := np.Window.Until.Time
	if np.Window.From != nil {
		from = np.Window.From.Time
	}
	until := np.Window.Until.Time
	own := func(p span) bool { return p.digest == s.digest }
	near := func(p span) bool { // see package lineage
		return own(p) && !p.from.After(until.Add(leeway)) && (p.until.IsZero() || p.until.Add(bridge).After(from))
	}
	if slices.ContainsFunc(had, own) && !slices.ContainsFunc(had, near) {
		for _, p := range had { // somebody may have made it again, and then it begins later than it did
			if p.covers(from, until) {
				return differ("spec.configuration.inputDigest", 0, p.digest+", which the pool had then", s.digest), nil
			}
		}
	}
	if np.Evidence != api.EvidenceInferred || len(np.Possible) >= maxPossible {
		return nil, nil
	}
	for _, p := range had {
		listed := func(l api.PossibleConfiguration) bool { return l.InputDigest == p.digest }
		if !own(p) && p.within(from, until) && !older(p.revision, np.Pool.Revision) && !slices.ContainsFunc(np.Possible, listed) {
			return differ("spec.possible", 0, p.digest+", which the pool had until "+p.until.UTC().Format(time.RFC3339), "that it is not listed"), nil
		}
	}
	return nil, nil
}

// maxPossible is how many configurations are listed at the most, see package lineage.
const maxPossible = 64

// comparePossible compares what is listed with the records of the same digests. Some may
// be gone: a record stays for the nodes that were provisioned from it.
func (s *subject) comparePossible(had []span) *Difference {
	for i, l := range s.node.Spec.Possible {
		at := fmt.Sprintf("spec.possible[%d].", i)
		same := slices.DeleteFunc(slices.Clone(had), func(p span) bool { return p.digest != l.InputDigest })
		if len(same) == 0 {
			continue
		}
		p := same[0]
		if d := firstOf(field{at + "profile", p.profile, l.Profile}, field{at + "version", p.version, l.Version}, field{at + "commit", p.commit, l.Commit}); d != nil {
			return d
		}
		stands := func(p span) bool { return p.until.IsZero() } // somebody may have made it again
		if !slices.ContainsFunc(same, stands) && !slices.ContainsFunc(same, func(p span) bool { return p.from.Equal(l.From.Time) }) {
			return differ(at+"from", 0, p.from.UTC().Format(time.RFC3339), l.From.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// older reports whether a revision of a MachineDeployment comes before another. What is
// no number does not.
func older(revision, than string) bool {
	a, errA := strconv.ParseUint(revision, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}
