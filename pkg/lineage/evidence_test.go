package lineage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// noon is the origin of all times in these tables, which are in minutes.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func minute(m float64) time.Time {
	return noon.Add(time.Duration(m * float64(time.Minute))).Truncate(time.Second)
}

func window(from, until float64) api.ProvenanceWindow {
	w := api.ProvenanceWindow{Until: metav1.NewTime(minute(until))}
	if from >= 0 {
		f := metav1.NewTime(minute(from))
		w.From = &f
	}
	return w
}

// record is the record of a version.
func record(t *testing.T, version string) render.Record {
	t.Helper()
	rec := render.Record{Object: "osp-x-" + version, Profile: "osp-x", Version: version, Commit: "sha1:" + strings.Repeat(version[1:2], 40), Engine: "v1"}
	rec.Digests.Input = rec.InputDigest()
	return rec
}

// stood is a configuration in a history: its begin, its end by the controller's clock, the revision,
// and the configuration that it replaced.
type stood struct {
	version     string
	from, until float64 // until of the last one: negative while it is current
	revision    string
	replaces    string
	pool        string // uid of the MachineDeployment
}

// uid is that of the nth configuration.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("osc-%d", n)) }

// history makes the objects that a pool's past leaves.
func history(t *testing.T, past ...stood) (metav1.Object, []metav1.PartialObjectMetadata) {
	t.Helper()
	var standing metav1.Object
	intervals, pools := map[string][]api.Interval{}, map[string]string{}
	var order []string
	for n, s := range past {
		rec := record(t, s.version)
		if s.until < 0 {
			text, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			standing = &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{
				Name: "pool-ns-config", UID: uid(n), CreationTimestamp: metav1.NewTime(minute(s.from)),
				Annotations: map[string]string{api.AnnotationRecord: string(text), api.AnnotationReplaces: s.replaces, api.AnnotationRevisionFor: s.revision, api.AnnotationPoolUID: s.pool},
			}}
			continue
		}
		if intervals[s.version] == nil {
			order, pools[s.version] = append(order, s.version), s.pool
		}
		intervals[s.version] = append(intervals[s.version], api.Interval{
			From: metav1.NewTime(minute(s.from)), Until: metav1.NewTime(minute(s.until)), UID: uid(n), Replaces: types.UID(s.replaces), Revision: s.revision,
		})
	}
	var records []metav1.PartialObjectMetadata
	for _, version := range order {
		rec := record(t, version)
		text, err := json.Marshal(intervals[version])
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "pool-ns-" + version, UID: types.UID(version), Annotations: map[string]string{
				api.AnnotationIntervals: string(text), api.AnnotationInputDigest: rec.Digests.Input,
				api.AnnotationProfile: rec.Profile, api.AnnotationVersion: rec.Version, api.AnnotationCommit: rec.Commit, api.AnnotationPoolUID: pools[version],
			},
		}})
	}
	return standing, records
}

func told(t Timeline) string {
	var out []string
	for _, g := range t {
		until := "now"
		if !g.Until.IsZero() {
			until = fmt.Sprint(g.Until.Sub(noon).Minutes())
		}
		out = append(out, fmt.Sprintf("%s %v-%s", g.Version, g.From.Sub(noon).Minutes(), until))
	}
	return strings.Join(out, ", ")
}

func TestTimeline(t *testing.T) {
	for name, c := range map[string]struct {
		past []stood
		want string
	}{
		"nothing":                       {nil, ""},
		"one that stands":               {[]stood{{version: "v1", from: 0, until: -1}}, "v1 0-now"},
		"one after the other":           {[]stood{{version: "v1", from: 0, until: 10}, {version: "v2", from: 10.1, until: -1, replaces: "osc-0"}}, "v1 0-10.1, v2 10.1-now"},
		"a revert is two times":         {[]stood{{version: "v1", from: 0, until: 10}, {version: "v2", from: 10, until: 20, replaces: "osc-0"}, {version: "v1", from: 20, until: -1, replaces: "osc-1"}}, "v1 0-10, v2 10-20, v1 20-now"},
		"archived, and not yet deleted": {[]stood{{version: "v1", from: 0, until: -1}}, "v1 0-now"},

		// What ends does so by the controller's clock, what begins by the API server's.
		"a clock that is hours behind":         {[]stood{{version: "v1", from: 0, until: 0}, {version: "v2", from: 300, until: -1, replaces: "osc-0"}}, "v1 0-300, v2 300-now"},
		"a clock that is hours ahead":          {[]stood{{version: "v1", from: 0, until: 400}, {version: "v2", from: 300, until: -1, replaces: "osc-0"}}, "v1 0-300, v2 300-now"},
		"killed between two, for a short time": {[]stood{{version: "v1", from: 0, until: 10}, {version: "v2", from: 15, until: -1}}, "v1 0-15, v2 15-now"},
		"nothing of ours for a long time":      {[]stood{{version: "v1", from: 0, until: 10}, {version: "v2", from: 300, until: -1}}, "v1 0-10, v2 300-now"},
		"another controller's in between":      {[]stood{{version: "v1", from: 0, until: 10}, {version: "v2", from: 15, until: -1, replaces: "the reference's"}}, "v1 0-10, v2 15-now"},
		"a pool that is gone":                  {[]stood{{version: "v1", from: 0, until: 10}}, "v1 0-10"},
		// A pool that is created again under its name: the Secrets of the one before went with it.
		"another pool of the name, at once": {[]stood{{version: "v1", from: 0, until: 10, pool: "a"}, {version: "v2", from: 11, until: -1, pool: "b"}}, "v1 0-10, v2 11-now"},
		"the same pool, killed between two": {[]stood{{version: "v1", from: 0, until: 10, pool: "a"}, {version: "v2", from: 11, until: -1, pool: "a"}}, "v1 0-11, v2 11-now"},

		"two within a second, in their order": {[]stood{{version: "v2", from: 0, until: -1, replaces: "osc-1"}, {version: "v1", from: 0, until: 1}}, "v1 0-0, v2 0-now"},
		"four within a second, in their order": {[]stood{
			{version: "v3", from: 0, until: 0, replaces: "osc-1"}, {version: "v2", from: 0, until: 0, replaces: "osc-2"}, {version: "v1", from: 0, until: 0},
			{version: "v4", from: 0, until: -1, replaces: "osc-0"},
		}, "v1 0-0, v2 0-0, v3 0-0, v4 0-now"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(NewTimeline(history(t, c.past...))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	t.Run("an interval of the configuration that still stands", func(t *testing.T) {
		osc, _ := history(t, stood{version: "v1", from: 0, until: -1})
		_, records := history(t, stood{version: "v1", from: 0, until: 10})
		if got := told(NewTimeline(osc, records)); got != "v1 0-now" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("an edited record says nothing", func(t *testing.T) {
		osc, _ := history(t, stood{version: "v1", from: 0, until: -1})
		osc.GetAnnotations()[api.AnnotationRecord] = strings.Replace(osc.GetAnnotations()[api.AnnotationRecord], `"v1"`, `"v9"`, 1)
		if got := NewTimeline(osc, nil); len(got) > 0 {
			t.Errorf("got %s", told(got))
		}
	})
}

func TestConclude(t *testing.T) {
	steady := []stood{{version: "v1", from: 0, until: -1, revision: "1"}}
	pushed := []stood{{version: "v1", from: 0, until: 100, revision: "1"}, {version: "v2", from: 100, until: -1, revision: "1", replaces: "osc-0"}}
	reverted := []stood{
		{version: "v1", from: 0, until: 100}, {version: "v2", from: 100, until: 200, replaces: "osc-0"}, {version: "v1", from: 200, until: -1, replaces: "osc-1"},
	}
	template := []stood{{version: "v1", from: 0, until: 100.05, revision: "1"}, {version: "v2", from: 100.05, until: -1, revision: "2", replaces: "osc-0"}}
	again := []stood{{version: "v1", from: 0, until: 20}, {version: "v2", from: 100, until: -1, replaces: "osc-0"}} // the second was created at 20, and then at 100
	lost := []stood{{version: "v1", from: 0, until: 20}, {version: "v3", from: 100, until: -1}}                     // what was between was deleted, without the controller
	returned := []stood{{version: "v1", from: 0, until: 10}, {version: "v2", from: 10, until: 40, replaces: "osc-0"}, {version: "v3", from: 100, until: -1}}
	taken := []stood{{version: "v1", from: 100, until: -1, replaces: "the reference's"}}
	says := func(version string) api.NodeReport {
		rec := record(t, version)
		return api.NodeReport{Config: render.ShortDigest(rec.Digests.Input), Commit: render.LabelValue(rec.Commit)}
	}
	for name, c := range map[string]struct {
		past     []stood
		report   api.NodeReport
		window   api.ProvenanceWindow
		revision string

		evidence  api.Evidence
		of        string // version of the provisioning document, then of the bootstrap document
		possible  string
		agreement string
	}{
		"one configuration":             {past: steady, window: window(50, 54), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNothingReported},
		"one, and the node says so":     {past: steady, window: window(50, 54), report: says("v1"), evidence: api.EvidenceReported, of: "v1 v1", agreement: api.ReasonRecorded},
		"before a push":                 {past: pushed, window: window(50, 54), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNothingReported},
		"after a push":                  {past: pushed, window: window(150, 154), evidence: api.EvidenceInferred, of: "v2 v2", agreement: api.ReasonNothingReported},
		"a push while it boots":         {past: pushed, window: window(98, 102), evidence: api.EvidenceInferred, of: "v1 v1", possible: "v1 0-100, v2 100-now", agreement: api.ReasonNothingReported},
		"and the node knows the second": {past: pushed, window: window(98, 102), report: says("v2"), evidence: api.EvidenceReported, of: "v2 v1", possible: "v1 0-100, v2 100-now", agreement: api.ReasonRecorded},
		"and the node knows the first":  {past: pushed, window: window(98, 102), report: says("v1"), evidence: api.EvidenceReported, of: "v1 v1", possible: "v1 0-100, v2 100-now", agreement: api.ReasonRecorded},
		"before its pool had anything":  {past: []stood{{version: "v1", from: 30, until: -1}}, window: window(10, 20), evidence: api.EvidenceUnknown, agreement: api.ReasonNothingReported},
		"a machine that waited for its pool": {past: []stood{{version: "v1", from: 30, until: -1}}, window: window(10, 40),
			evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNothingReported},

		// A revert: the same configuration at two times.
		"at the first time":               {past: reverted, window: window(50, 54), report: says("v1"), evidence: api.EvidenceReported, of: "v1 v1", agreement: api.ReasonRecorded},
		"at the second time":              {past: reverted, window: window(250, 254), report: says("v1"), evidence: api.EvidenceReported, of: "v1 v1", agreement: api.ReasonRecorded},
		"in between, it says the old one": {past: reverted, window: window(150, 154), report: says("v1"), evidence: api.EvidenceInferred, of: "v2 v2", agreement: api.ReasonNotCurrentThen},

		// machine-controller waits for documents of the template that the machine is of.
		"a machine of a new template, older than its configuration": {past: template, window: window(100, 104), revision: "2",
			evidence: api.EvidenceInferred, of: "v2 v2", agreement: api.ReasonNothingReported},
		"a template that was used again": {past: pushed, window: window(50, 54), revision: "7", evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNothingReported},

		// Labels that lie.
		"a configuration that never was": {past: steady, window: window(50, 54), report: api.NodeReport{Config: "0123456789ab", Commit: says("v1").Commit},
			evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNeverCurrent},
		"a configuration of before": {past: pushed, window: window(150, 154), report: says("v1"), evidence: api.EvidenceInferred, of: "v2 v2", agreement: api.ReasonNotCurrentThen},
		"a configuration of after":  {past: pushed, window: window(50, 54), report: says("v2"), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNotCurrentThen},
		"a configuration of after, moments after a push": {past: append(pushed[:1:1], stood{version: "v2", from: 100, until: 110, replaces: "osc-0"}, stood{version: "v3", from: 110, until: -1, replaces: "osc-1"}),
			window: window(98, 100.05), report: says("v3"), evidence: api.EvidenceInferred, of: "v1 v1", possible: "v1 0-100, v2 100-110", agreement: api.ReasonNotCurrentThen},
		"a configuration of after, of a node that took long": {past: append(pushed[:1:1], stood{version: "v2", from: 100, until: 200, replaces: "osc-0"}, stood{version: "v3", from: 200, until: -1, replaces: "osc-1"}),
			window: window(98, 102), report: says("v3"), evidence: api.EvidenceInferred, of: "v1 v1", possible: "v1 0-100, v2 100-200", agreement: api.ReasonNotCurrentThen},
		"another commit": {past: steady, window: window(50, 54), report: api.NodeReport{Config: says("v1").Config, Commit: says("v2").Commit},
			evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonOtherCommit},
		"a commit alone that fits":     {past: steady, window: window(50, 54), report: api.NodeReport{Commit: says("v1").Commit}, evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonRecorded},
		"a commit alone that does not": {past: steady, window: window(50, 54), report: api.NodeReport{Commit: says("v2").Commit}, evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonOtherCommit},

		// Generations without records.
		"a pool without records":         {window: window(50, 54), report: says("v1"), evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"before the pool was taken over": {past: taken, window: window(50, 54), report: says("v2"), evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"while it was taken over":        {past: taken, window: window(98, 102), evidence: api.EvidenceUnknown, possible: "v1 100-now", agreement: api.ReasonNothingReported},
		"after it was taken over":        {past: taken, window: window(110, 114), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNothingReported},
		"a node of a cluster that was rebuilt": {past: []stood{{version: "v1", from: 100, until: -1}}, window: window(50, 54), report: says("v1"),
			evidence: api.EvidenceUnknown, possible: "v1 100-now", agreement: api.ReasonNoRecords},
		"and one with a configuration of before": {past: []stood{{version: "v2", from: 100, until: -1}}, window: window(50, 54), report: says("v1"),
			evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"and one that reports a commit alone": {past: []stood{{version: "v2", from: 100, until: -1}}, window: window(50, 54),
			report: api.NodeReport{Commit: says("v1").Commit}, evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"and one whose pool got another after it was rebuilt": {past: []stood{{version: "v1", from: 100, until: 200}, {version: "v2", from: 200, until: -1, replaces: "osc-0"}},
			window: window(50, 54), report: says("v2"), evidence: api.EvidenceUnknown, possible: "v2 200-now", agreement: api.ReasonNoRecords},
		"and one that reports another commit": {past: []stood{{version: "v1", from: 100, until: -1}}, window: window(50, 54),
			report: api.NodeReport{Config: says("v1").Config, Commit: says("v2").Commit}, evidence: api.EvidenceUnknown, agreement: api.ReasonNotCurrentThen},
		"a configuration that was created again":            {past: again, window: window(50, 54), report: says("v2"), evidence: api.EvidenceUnknown, possible: "v1 0-100, v2 100-now", agreement: api.ReasonNoRecords},
		"and a node from before it":                         {past: again, window: window(10, 14), report: says("v2"), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNotCurrentThen},
		"and a node that reports nothing":                   {past: again, window: window(50, 54), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNothingReported},
		"a configuration that was deleted without a record": {past: lost, window: window(50, 54), report: says("v2"), evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"and a node that reports its commit alone":          {past: lost, window: window(50, 54), report: api.NodeReport{Commit: says("v2").Commit}, evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"and a node from before it was":                     {past: lost, window: window(10, 14), report: says("v2"), evidence: api.EvidenceInferred, of: "v1 v1", agreement: api.ReasonNeverCurrent},
		"and a node from after it was":                      {past: lost, window: window(110, 114), report: says("v2"), evidence: api.EvidenceInferred, of: "v3 v3", agreement: api.ReasonNeverCurrent},
		"and none is there yet":                             {past: lost[:1], window: window(50, 54), report: says("v2"), evidence: api.EvidenceUnknown, agreement: api.ReasonNoRecords},
		"a return to a configuration that was deleted without a record": {past: returned, window: window(50, 54), report: says("v1"),
			evidence: api.EvidenceUnknown, possible: "v1 0-10", agreement: api.ReasonNoRecords},
		"and a node from before the return": {past: returned, window: window(30, 34), report: says("v1"), evidence: api.EvidenceInferred, of: "v2 v2", agreement: api.ReasonNotCurrentThen},
		"a record that was deleted, of a node that took long": {past: []stood{{version: "v1", from: 0, until: 20}, {version: "v3", from: 30, until: -1, replaces: "osc of v2"}},
			window: window(15, 40), report: says("v2"), evidence: api.EvidenceUnknown, possible: "v1 0-20, v3 30-now", agreement: api.ReasonNoRecords},
		"a machine that is younger than its node, of a cluster that was rebuilt": {past: []stood{{version: "v2", from: 10, until: -1}}, window: window(-1, 20), report: says("v1"),
			evidence: api.EvidenceUnknown, possible: "v2 10-now", agreement: api.ReasonNoRecords},
		"and it reports a configuration that the pool got later": {past: []stood{{version: "v1", from: 10, until: 30}, {version: "v2", from: 30, until: -1, replaces: "osc-0"}},
			window: window(-1, 20), report: says("v2"), evidence: api.EvidenceUnknown, possible: "v1 10-30, v2 30-now", agreement: api.ReasonNoRecords},
		"a machine that is younger than its node": {past: pushed, window: window(-1, 150), evidence: api.EvidenceUnknown, possible: "v1 0-100, v2 100-now", agreement: api.ReasonNothingReported},
		"and the node says what it has":           {past: pushed, window: window(-1, 150), report: says("v1"), evidence: api.EvidenceReported, of: "v1 v1", possible: "v1 0-100, v2 100-now", agreement: api.ReasonRecorded},
	} {
		t.Run(name, func(t *testing.T) {
			got := DetermineConfiguration(Observation{Report: c.report, Window: c.window, Revision: c.revision, Pool: NewTimeline(history(t, c.past...))})
			of := ""
			if got.Configuration != nil {
				of = got.Configuration.Version + " " + got.Bootstrap.Version
			}
			if diff := cmp.Diff([]string{string(c.evidence), c.of, c.possible, c.agreement}, []string{string(got.Evidence), of, told(got.Possible), got.Agreement.Reason}); diff != "" {
				t.Errorf("differs (-want +got):\n%s%s", diff, got.Explanation)
			}
			if got.Explanation == "" || got.Agreement.Message == "" {
				t.Error("it does not say why")
			}
		})
	}
}

// A push and its revert within minutes: a node that reports what the pool had before and
// after is of the second time, which another commit selected.
func TestReportedAtTheSecondTime(t *testing.T) {
	rec := record(t, "v1")
	for _, c := range []struct {
		reverted float64
		window   api.ProvenanceWindow
		want     string
	}{{101, window(99, 99.5), "the first"}, {101, window(102, 104), "the revert"}, {100.05, window(100.06, 100.2), "the revert"}} {
		pool := NewTimeline(history(t, stood{version: "v1", from: 0, until: 100}, stood{version: "v2", from: 100, until: c.reverted, replaces: "osc-0"},
			stood{version: "v1", from: c.reverted, until: -1, replaces: "osc-1"}))
		pool[0].SelectedBy, pool[2].SelectedBy = "the first", "the revert"
		got := DetermineConfiguration(Observation{Report: api.NodeReport{Config: render.ShortDigest(rec.Digests.Input)}, Window: c.window, Pool: pool})
		if got.Evidence != api.EvidenceReported || got.Configuration.SelectedBy != c.want {
			t.Errorf("got %s of %+v, want %s", got.Evidence, got.Configuration, c.want)
		}
	}
}

func TestBehind(t *testing.T) {
	past := []stood{
		{version: "v1", from: 0, until: 100}, {version: "v2", from: 100, until: 200, replaces: "osc-0"}, {version: "v3", from: 200, until: -1, replaces: "osc-1"},
	}
	reverted := append(past[:2:2], stood{version: "v1", from: 200, until: -1, replaces: "osc-1"})
	for name, c := range map[string]struct {
		past    []stood
		has     string
		joined  float64
		want    api.Behind
		missing string
	}{
		"what the pool has":            {past, "v3", 210, api.BehindNo, ""},
		"one behind":                   {past, "v2", 150, api.BehindYes, "v3"},
		"two behind":                   {past, "v1", 50, api.BehindYes, "v2"},
		"two behind, pushed at boot":   {past, "v1", 101, api.BehindYes, "v2"},
		"a revert brings it back":      {reverted, "v1", 50, api.BehindNo, ""},
		"a revert goes past it":        {reverted, "v2", 150, api.BehindYes, "v1"},
		"a pool that is gone":          {past[:1], "v1", 50, api.BehindUnknown, ""},
		"a node that nothing is known": {past, "", 50, api.BehindUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			np := &api.NodeProvenance{Spec: api.NodeProvenanceSpec{Window: window(c.joined-2, c.joined)}}
			if c.has != "" {
				rec := record(t, c.has)
				np.Spec.Configuration = &api.ProvenanceConfiguration{InputDigest: rec.Digests.Input, Profile: rec.Profile, Version: rec.Version}
			}
			got, missing := FindMissingVersions(np, NewTimeline(history(t, c.past...)))
			version := ""
			if len(missing) > 0 {
				version = missing[0].Version
			}
			if got != c.want || version != c.missing {
				t.Errorf("got %s, missing %q", got, version)
			}
		})
	}
}

func TestProvenanceName(t *testing.T) {
	long := ProvenanceName(strings.Repeat("n", 253), "0b6f3c1a-6f0e")
	if ProvenanceName("node", "0b6f3c1a-6f0e") != "node.0b6f3c1a" || len(long) != 253 || !strings.HasSuffix(long, "n.0b6f3c1a") {
		t.Errorf("got %s", long)
	}
}
