package verify

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// Revisions of MachineDeployments are compared as numbers; a revision that is not a number
// is never the older one.
func TestOlder(t *testing.T) {
	for _, c := range []struct {
		revision, than string
		want           bool
	}{
		{"1", "2", true},
		{"2", "1", false},
		{"2", "2", false},
		{"9", "10", true},
		{"", "1", false},
		{"1", "", false},
		{"x", "1", false},
		{"1", "x", false},
		{"-1", "1", false},
		{"x", "y", false},
	} {
		if got := lineage.IsOlderRevision(c.revision, c.than); got != c.want {
			t.Errorf("lineage.IsOlder(%q, %q) = %t, want %t", c.revision, c.than, got, c.want)
		}
	}
}

// What the controller writes of a node agrees with the history of its pool, also if the pool gets other
// configurations later, or returns to an earlier one.
func TestHistoriesAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same histories in each run
	seconds := func(n int) time.Duration { return time.Duration(random.IntN(n)) * time.Second }
	evidence := map[api.Evidence]int{}
	for range 20000 {
		h := history{intervals: map[string][]api.Interval{}}
		at := clusterfixture.At(0)
		for i := range 2 + random.IntN(5) {
			h.push(i, random.IntN(4), at, at.Add(seconds(5)-2*time.Second))
			at = at.Add(time.Second + max(seconds(60), seconds(1200)*time.Duration(random.IntN(2))))
		}
		created := clusterfixture.At(0).Add(seconds(int(at.Sub(clusterfixture.At(0)).Seconds())))
		joined := created.Add(time.Second + seconds(600))
		// The documents are up to four seconds late, or minutes, if the controller was interrupted.
		isLate, late := random.IntN(10) == 0, seconds(5)
		if isLate {
			late = seconds(590)
		}
		got := h.at(created.Add(seconds(int(joined.Sub(created).Seconds())) - late))
		var report api.NodeReport
		if random.IntN(2) == 0 {
			report = api.NodeReport{Config: got.ConfigLabel(), Commit: got.Commit}
		}
		window := lineage.NewProvenanceWindow(metav1.NewTime(created), metav1.NewTime(joined))
		c := lineage.DetermineConfiguration(lineage.Observation{Report: report, Window: window, Pool: h.known(joined.Add(seconds(60)))})
		evidence[c.Evidence]++
		if c.Configuration == nil {
			continue
		}
		np := &api.NodeProvenance{}
		np.Spec.Node.Joined, np.Spec.Machine.Created = metav1.NewTime(joined), metav1.NewTime(created)
		np.Spec.Evidence, np.Spec.Window, np.Spec.Possible = c.Evidence, window, c.Possible.Configurations()
		bootstrap := c.Bootstrap.Configuration()
		np.Spec.Bootstrap = &bootstrap
		if report != (api.NodeReport{}) {
			np.Spec.Reported = &report
		}
		s := h.target(np, c.Configuration.InputDigest)
		had := h.known(at)
		d, doubt := s.compareWithTimeline(had)
		if d == nil {
			d = s.compareHistory(had)
		}
		if d == nil && doubt == "" {
			d, doubt = s.comparePossible(had), cmp.Or(s.concludeAgain(had), s.compareTimes(had))
		}
		if d != nil || doubt != "" && !isLate {
			t.Fatalf("%+v %q\n%+v\n%+v", d, doubt, np.Spec, had)
		}
	}
	if evidence[api.EvidenceReported] < 5000 || evidence[api.EvidenceInferred] < 5000 || evidence[api.EvidenceUnknown] > 5000 {
		t.Errorf("evidence is %v", evidence)
	}
}

// history is what a pool had: its generations, oldest first, and the intervals in the records of
// the archived ones.
type history struct {
	generations lineage.Timeline
	intervals   map[string][]api.Interval
}

// push archives the present generation, which the controller's clock can say too early or late, and begins another one.
func (h *history) push(i, version int, at, archived time.Time) {
	rec := render.Record{Object: "osp-x", Version: fmt.Sprint(version), Commit: clusterfixture.Commit(version)}
	next := lineage.Generation{InputDigest: rec.InputDigest(), Version: rec.Version, Commit: rec.Commit, From: at, UID: types.UID(fmt.Sprint(i))}
	if n := len(h.generations); n > 0 {
		was := &h.generations[n-1]
		if was.InputDigest == next.InputDigest {
			return
		}
		was.Until, was.Archived, was.Record, next.Replaces = archived, archived, "record of "+was.InputDigest, was.UID
		h.intervals[was.InputDigest] = append(h.intervals[was.InputDigest], api.Interval{
			From: metav1.NewTime(was.From), Until: metav1.NewTime(archived), UID: was.UID, Replaces: was.Replaces,
		})
	}
	h.generations = append(h.generations, next)
}

// at returns the generation that the pool had at a time.
func (h *history) at(at time.Time) lineage.Generation {
	got := h.generations[0]
	for _, g := range h.generations {
		if !g.From.After(at) {
			got = g
		}
	}
	return got
}

// known returns what the records say at a time.
func (h *history) known(at time.Time) lineage.Timeline {
	var archived []lineage.Generation
	for i, g := range h.generations {
		if i+1 == len(h.generations) || h.generations[i+1].From.After(at) {
			g.Until, g.Archived, g.Record = time.Time{}, time.Time{}, ""
			return lineage.Assemble(&g, archived)
		}
		archived = append(archived, g)
	}
	return nil
}

// target is a NodeProvenance with the record that it claims.
func (h *history) target(np *api.NodeProvenance, digest string) *target {
	for _, g := range h.generations {
		if g.InputDigest != digest {
			continue
		}
		rec := render.Record{Object: "osp-x", Version: g.Version, Commit: g.Commit}
		rec.Digests.Input = digest
		stored := &lineage.StoredRecord{Record: rec}
		if h.generations[len(h.generations)-1].InputDigest != digest {
			stored.Archived = &appsv1.ControllerRevision{}
			text, err := lineage.EncodeIntervals(h.intervals[digest])
			if err != nil {
				panic(err)
			}
			stored.Archived.Annotations = map[string]string{api.AnnotationIntervals: text}
		}
		return &target{node: np, digest: digest, gen: stored}
	}
	return nil
}
