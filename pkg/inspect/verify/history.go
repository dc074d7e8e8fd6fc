package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// within reports whether the pool certainly had a generation at some time between two
// times.
func within(g lineage.Generation, from, until time.Time) bool {
	return g.From.Add(lineage.Leeway).Before(until) && (g.Until.IsZero() || g.CertainEnd().After(from))
}

// hadOthersThroughout reports whether the pool certainly had other generations than those of a digest
// throughout an interval.
func hadOthersThroughout(had lineage.Timeline, digest string, from, until time.Time) bool {
	var since time.Time
	for i, g := range had {
		// Without a gap: the one before was archived when this one began.
		continues := i > 0 && had[i-1].InputDigest != digest && had[i-1].CertainEnd().Add(lineage.Leeway).Equal(g.From)
		if !continues {
			since = g.From.Add(lineage.Leeway)
		}
		if g.InputDigest != digest && since.Before(from) && within(g, until, until) {
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

// asIfCreatedAgain returns what the pool had if its OperatingSystemConfig was deleted and created again, with
// the annotation that names the one before it: it began when that was archived. Within seconds of the archive
// that cannot be told from a clock that is behind, so such nodes remain unproven.
func asIfCreatedAgain(had lineage.Timeline) lineage.Timeline {
	had = slices.Clone(had)
	if n := len(had); n > 1 && had[n-1].Record == "" && had[n-1].Replaces != "" && had[n-1].Replaces == had[n-2].UID && had[n-2].CertainEnd().Add(lineage.Leeway).Before(had[n-1].From) {
		had[n-1].From, had[n-2].Until = had[n-2].Archived, had[n-2].Archived
	}
	return had
}

// compareWithTimeline compares the claimed configuration with those that the pool had in the time in which
// the machine fetched its documents. The result is a doubt if the claim is possible and no object proves
// it, see MayHaveHad.
func (s *target) compareWithTimeline(had lineage.Timeline) (d *Difference, doubt string) {
	if s.gen == nil || !s.gen.IsIntact() {
		return nil, "" // the check of the record reports it
	}
	if s.gen.Archived != nil && lineage.DecodeIntervals(s.gen.Archived.Annotations) == nil {
		return newDifference("annotation "+api.AnnotationIntervals+" of "+describeHolder(s.gen), 0, "the JSON of intervals", "something else"), ""
	}
	np := s.node.Spec
	w := np.Window
	if w.From == nil {
		w.From = &w.Until // when the machine began is unknown, see concludeAgain
	}
	// The Machine of a node that was adopted is younger than the node.
	isPossible := np.Machine.Created.After(np.Node.Joined.Add(lineage.Leeway)) || np.Window.From != nil && !w.Until.Add(lineage.Leeway).Before(w.From.Time)
	var isProven, isOfTemplate, mayBe bool
	for i, g := range asIfCreatedAgain(had) {
		if g.InputDigest != s.digest {
			continue
		}
		recorded := g
		// The timeline corrects the ends, which have the controller's clock, by annotations that a user can
		// edit. So it cannot prove anything.
		recorded.Until = g.Archived
		isProven = isProven || (g.Record == "" || !g.Archived.IsZero()) && recorded.WasCurrentDuring(w, lineage.Bridge)
		isOfTemplate = isOfTemplate || !lineage.IsOlderRevision(g.Revision, np.Pool.Revision)
		mayBe = mayBe || isPossible && (had.MayHaveHad(recorded, np.Window) || had[i].WasCurrentDuring(np.Window, lineage.Bridge))
	}
	switch {
	case isProven && hadOthersThroughout(had, s.digest, w.From.Time, w.Until.Time):
		return nil, "the pool had another configuration then, unless the controller was interrupted before it wrote the documents"
	case isProven && !isOfTemplate:
		return nil, "the pool had this configuration before its MachineDeployment had the template of the machine"
	case isProven:
		return nil, ""
	case mayBe:
		return nil, "the records have this configuration at other times only: its OperatingSystemConfig was created again, a record is missing, or the controller's clock was behind"
	}
	if i := slices.IndexFunc(had, func(g lineage.Generation) bool { return within(g, w.Until.Time, w.Until.Time) }); s.gen.Archived == nil && i >= 0 {
		return newDifference("spec.configuration.inputDigest", 0, had[i].InputDigest+", which the pool had at that time", s.digest), ""
	}
	return newDifference("spec.window", 0, "a time at which the pool had this configuration", w.Until.UTC().Format(time.RFC3339)), ""
}

// compareHistory compares a NodeProvenance without a report with all generations of its pool that it does
// not list as possible.
func (s *target) compareHistory(had lineage.Timeline) *Difference {
	np := s.node.Spec
	from, until := np.Window.Until.Time, np.Window.Until.Time
	if np.Window.From != nil {
		from = np.Window.From.Time
	}
	// A list that has reached its limit is incomplete.
	if np.Evidence != api.EvidenceInferred || len(np.Possible) >= lineage.MaxPossible {
		return nil
	}
	for _, p := range had {
		listed := func(l api.PossibleConfiguration) bool { return l.InputDigest == p.InputDigest }
		if p.InputDigest != s.digest && within(p, from, until) && !lineage.IsOlderRevision(p.Revision, np.Pool.Revision) && !slices.ContainsFunc(np.Possible, listed) {
			return newDifference("spec.possible", 0, p.InputDigest+", which the pool had then", "not listed")
		}
	}
	return nil
}

// concludeAgain concludes again, as the controller did when the node joined, from what exists now. The
// result is a doubt if that is something else.
func (s *target) concludeAgain(had lineage.Timeline) (doubt string) {
	np := s.node.Spec
	if np.Bootstrap == nil || s.gen == nil || !s.gen.IsIntact() {
		return "" // reported already
	}
	// A node that was deleted and created again has the window of the first one, which nothing else proves. The
	// revision is one of several, if the MachineSet was used again.
	windows := []api.ProvenanceWindow{np.Window, lineage.NewProvenanceWindow(np.Machine.Created, np.Node.Joined)}
	for _, w := range windows {
		for _, revision := range append([]string{np.Pool.Revision}, s.revisions...) {
			f := lineage.Observation{Window: w, Revision: revision}
			if np.Reported != nil {
				f.Report = *np.Reported
			}
			if doubt := s.compareConclusions(f, had); doubt != "" {
				return doubt
			}
		}
	}
	return ""
}

// compareConclusions compares the NodeProvenance with what follows from an observation.
func (s *target) compareConclusions(f lineage.Observation, had lineage.Timeline) (doubt string) {
	np := s.node.Spec
	for _, f.Pool = range []lineage.Timeline{
		// The controller can have concluded before the pool got another one, just after the node had joined.
		slices.DeleteFunc(slices.Clone(had), func(g lineage.Generation) bool { return !g.From.Before(f.Window.Until.Time) }),
		asIfCreatedAgain(had),
		had,
	} {
		c := lineage.DetermineConfiguration(f)
		fields := []field{{"spec.evidence", string(c.Evidence), string(np.Evidence)}}
		if c.Configuration != nil {
			fields = append(fields, field{"spec.configuration.inputDigest", c.Configuration.InputDigest, s.digest}, field{"spec.bootstrap.inputDigest", c.Bootstrap.InputDigest, np.Bootstrap.InputDigest})
		}
		if c.Agreement.Status == metav1.ConditionFalse {
			fields = append(fields, field{"spec.reported", "in contradiction: " + c.Agreement.Message, ""})
		}
		d := firstMismatch(fields...)
		switch {
		case d != nil:
			doubt = fmt.Sprintf("%s is %s, and from the records that exist now it is %s", d.Field, d.Found, d.Expected)
		case !s.lists(f.Window, c.Possible):
			doubt = fmt.Sprintf("spec.possible lists %s, and from the records that exist now %s were possible", versions(np.Possible), versions(c.Possible.Configurations()))
		default:
			return ""
		}
	}
	return doubt
}

// versions names configurations in a note.
func versions(list []api.PossibleConfiguration) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Version+" ("+render.ShortDigest(p.InputDigest)+")")
	}
	return redact.PrintableLine(cmp.Or(strings.Join(out, ", "), "none"))
}

// lists reports whether the NodeProvenance lists the generations that were possible in a window. Those of its
// first and last seconds can be missing.
func (s *target) lists(w api.ProvenanceWindow, possible lineage.Timeline) bool {
	var from time.Time
	if w.From != nil {
		from = w.From.Time
	}
	isListed := func(g lineage.Generation) bool {
		return slices.ContainsFunc(s.node.Spec.Possible, func(l api.PossibleConfiguration) bool { return l.InputDigest == g.InputDigest })
	}
	for _, g := range possible {
		if within(g, from, w.Until.Time) && !isListed(g) && (g.InputDigest != s.digest || len(s.node.Spec.Possible) > 0) {
			return false
		}
	}
	for _, l := range s.node.Spec.Possible {
		if !slices.ContainsFunc(possible, func(g lineage.Generation) bool { return l.InputDigest == g.InputDigest }) {
			return false
		}
	}
	return true
}

// comparePossible compares the listed generations with the records of the same digests.
// It ignores one without a record, which a user deleted or invented: concludeAgain finds it.
func (s *target) comparePossible(had lineage.Timeline) *Difference {
	for i, l := range s.node.Spec.Possible {
		at := fmt.Sprintf("spec.possible[%d].", i)
		same := slices.DeleteFunc(slices.Clone(had), func(p lineage.Generation) bool { return p.InputDigest != l.InputDigest })
		if len(same) == 0 {
			continue
		}
		p := same[0]
		if d := firstMismatch(field{at + "profile", p.Profile, l.Profile}, field{at + "version", p.Version, l.Version}, field{at + "commit", p.Commit, l.Commit}); d != nil {
			return d
		}
		// The present one can have been created again. See compareTimes.
		canBegin := func(p lineage.Generation) bool {
			return p.Until.IsZero() || p.From.Equal(l.From.Time) || p.From.After(l.From.Time) && had.CanPrecedeCreation(p, l.From.Time)
		}
		if !slices.ContainsFunc(same, canBegin) {
			return newDifference(at+"from", 0, p.From.UTC().Format(time.RFC3339), l.From.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// compareTimes compares when the pool had the configuration of the bootstrap document, and those that were
// possible, with the generations of their digests. The result is a doubt if these have other times: it was edited, a
// record is missing, or an OperatingSystemConfig was created again.
func (s *target) compareTimes(had lineage.Timeline) (doubt string) {
	np := s.node.Spec
	again := asIfCreatedAgain(had)
	isClose := func(a, b time.Time) bool { return a.Sub(b).Abs() <= lineage.Leeway }
	for i, l := range append([]api.PossibleConfiguration{*np.Bootstrap}, np.Possible...) {
		isRecorded := false
		for k, g := range had {
			begins := g.From.Equal(l.From.Time) || again[k].From.Before(g.From) && l.From.Time.Before(g.From) && isClose(again[k].From, l.From.Time)
			// It was written after the node had joined, maybe before the next one was created.
			ends := g.Until.IsZero() || !g.Until.Add(lineage.Leeway).Before(np.Node.Joined.Time)
			if l.Until != nil {
				ends = g.Until.Equal(l.Until.Time) || isClose(g.Archived, l.Until.Time)
			}
			isRecorded = isRecorded || g.InputDigest == l.InputDigest && begins && ends
		}
		if !isRecorded {
			at := "spec.bootstrap"
			if i > 0 {
				at = fmt.Sprintf("spec.possible[%d]", i-1)
			}
			return at + ".from or until is none of the times of the records that exist now"
		}
	}
	return ""
}
