package lineage

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// Leeway is how far two times of the API server may be apart that belong together.
	// They have whole seconds, several API servers have several clocks, and a pool's
	// Secrets follow its OperatingSystemConfig by a few requests.
	Leeway = 5 * time.Second
	// bridge is the longest time between two configurations of a pool, neither of which
	// names the other, for which the first is taken to have served: a controller that is
	// cut off between the two leaves the pool's Secrets as they are. Over more than that,
	// others may have served it.
	bridge = 10 * time.Minute
)

// Generation is a configuration that a pool had for a time.
type Generation struct {
	InputDigest      string
	Profile, Version string
	Commit           string
	SelectedBy       string
	// Revision is that of the MachineDeployment at the end of the generation.
	Revision string
	// From is when the pool got the configuration, Until when it got another or none.
	// Until is zero if the pool still has it.
	From, Until time.Time
	// Record names the ControllerRevision with the record. It is empty if the record is
	// on the pool's OperatingSystemConfig.
	Record string
	// Unrecorded says that the configuration replaced one without a record.
	Unrecorded bool
	// UID is that of the OperatingSystemConfig, Replaces that of the one before it.
	UID, Replaces types.UID
}

// ConfigLabel is the value of the label api.LabelConfig on a node of the generation.
func (g Generation) ConfigLabel() string { return render.ShortDigest(g.InputDigest) }

// during reports whether the pool had the generation at some time of a window, or for
// so long before its end that a document of it may have been fetched in the window.
func (g Generation) during(w api.ProvenanceWindow, late time.Duration) bool {
	if g.From.After(w.Until.Add(Leeway)) {
		return false
	}
	return g.Until.IsZero() || w.From == nil || g.Until.Add(late).After(w.From.Time)
}

// Configuration returns a generation in the form of the API.
func (g Generation) Configuration() api.PossibleConfiguration {
	p := api.PossibleConfiguration{
		InputDigest: g.InputDigest, Profile: g.Profile, Version: g.Version, Commit: g.Commit, From: metav1.NewTime(g.From),
	}
	if !g.Until.IsZero() {
		until := metav1.NewTime(g.Until)
		p.Until = &until
	}
	return p
}

// Timeline holds the generations of a pool, oldest first, without overlap.
type Timeline []Generation

// Configurations returns generations in the form of the API.
func (t Timeline) Configurations() []api.PossibleConfiguration {
	var out []api.PossibleConfiguration
	for _, g := range t {
		out = append(out, g.Configuration())
	}
	return out
}

// Current returns the generation that the pool has now.
func (t Timeline) Current() (Generation, bool) {
	if n := len(t); n > 0 && t[n-1].Until.IsZero() {
		return t[n-1], true
	}
	return Generation{}, false
}

// within are the generations that the pool had during a window.
func (t Timeline) within(w api.ProvenanceWindow) Timeline {
	var out Timeline
	for _, g := range t {
		if g.during(w, Leeway) {
			out = append(out, g)
		}
	}
	return out
}

// has finds the generation with a digest, or with its first digits. Of several times
// that the pool had it, the first that fits comes first, then the last one.
func (t Timeline) has(config string, fits func(Generation) bool) (g Generation, found bool) {
	for _, candidate := range t {
		if candidate.ConfigLabel() != config {
			continue
		}
		if g, found = candidate, true; fits(candidate) {
			return g, true
		}
	}
	return g, found
}

// timelineEntry is a generation before it is put in order.
type timelineEntry struct {
	Generation

	pool string // uid of the MachineDeployment; empty if unknown
}

// interval is what orders the generation among others.
func (g Generation) interval() api.Interval {
	return api.Interval{From: metav1.NewTime(g.From), Until: metav1.NewTime(g.Until), UID: g.UID, Replaces: g.Replaces}
}

// follows reports whether one came in place of another.
func (e timelineEntry) follows(other timelineEntry) bool {
	return e.Replaces != "" && e.Replaces == other.UID
}

// ofOnePool reports whether two may be of one MachineDeployment. One that is deleted and
// created again under its name is another.
func (e timelineEntry) ofOnePool(other timelineEntry) bool {
	return e.pool == "" || other.pool == "" || e.pool == other.pool
}

// NewTimeline orders what is known of a pool: its configuration, nil for none, and its
// archived records, of which it reads annotations alone.
//
// The beginnings are the API server's times, as those of machines and nodes are. The
// ends are the controller's, whose clock may be wrong: where one configuration follows
// another, the one ends when the other begins.
func NewTimeline(osc metav1.Object, records []metav1.PartialObjectMetadata) Timeline {
	var entries []timelineEntry
	standing := types.UID("")
	if osc != nil {
		if e, ok := entryOf(osc); ok {
			entries = append(entries, e)
			standing = osc.GetUID()
		}
	}
	for i := range records {
		for _, e := range archivedEntries(&records[i]) {
			if e.UID != standing { // or its deletion was not done yet
				entries = append(entries, e)
			}
		}
	}
	Sort(entries, timelineEntry.interval)
	known := map[types.UID]bool{}
	for _, e := range entries {
		known[e.UID] = e.UID != ""
	}
	var out Timeline
	for i, e := range entries {
		e.Unrecorded = e.Replaces != "" && !known[e.Replaces]
		if i+1 < len(entries) {
			next := entries[i+1]
			continues := next.follows(e) || known[next.Replaces] || next.Replaces == "" && next.ofOnePool(e) && !next.From.After(e.Until.Add(bridge))
			if continues || e.Until.IsZero() || e.Until.After(next.From) {
				e.Until = next.From
			}
		}
		out = append(out, e.Generation)
	}
	return out
}

// entryOf reads the configuration of a pool. One without a record, or with one that
// was edited, says nothing.
func entryOf(osc metav1.Object) (timelineEntry, bool) {
	rec, ok := RecordOf(osc)
	if !ok {
		return timelineEntry{}, false
	}
	return timelineEntry{
		Generation: Generation{
			InputDigest: rec.Digests.Input, Profile: ProfileName(rec), Version: rec.Version, Commit: rec.Commit, SelectedBy: rec.SelectedBy,
			Revision: osc.GetAnnotations()[api.AnnotationRevisionFor], From: osc.GetCreationTimestamp().Time,
			UID: osc.GetUID(), Replaces: types.UID(osc.GetAnnotations()[api.AnnotationReplaces]),
		},
		pool: osc.GetAnnotations()[api.AnnotationPoolUID],
	}, true
}

// archivedEntries reads the annotations of an archived record.
func archivedEntries(obj metav1.Object) []timelineEntry {
	a := obj.GetAnnotations()
	if a[api.AnnotationInputDigest] == "" {
		return nil // edited by hand
	}
	var out []timelineEntry
	for _, in := range DecodeIntervals(a) {
		out = append(out, timelineEntry{
			Generation: Generation{
				InputDigest: a[api.AnnotationInputDigest], Profile: a[api.AnnotationProfile], Version: a[api.AnnotationVersion],
				Commit: a[api.AnnotationCommit], SelectedBy: in.SelectedBy, Revision: in.Revision,
				From: in.From.Time, Until: in.Until.Time, Record: obj.GetName(),
				UID: in.UID, Replaces: in.Replaces,
			},
			pool: a[api.AnnotationPoolUID],
		})
	}
	return out
}

// RecordOf reads the record of an OperatingSystemConfig. It returns false if there is
// none, or if somebody edited it.
func RecordOf(osc metav1.Object) (render.Record, bool) {
	return DecodeRecord([]byte(osc.GetAnnotations()[api.AnnotationRecord]))
}

// DecodeRecord reads a record. It returns false if its digest is not that of its content.
func DecodeRecord(text []byte) (rec render.Record, ok bool) {
	if json.Unmarshal(text, &rec) != nil || rec.Object == "" || rec.InputDigest() != rec.Digests.Input {
		return render.Record{}, false
	}
	return rec, true
}

// ProfileName returns the profile of a record, or the name of an object made by hand.
func ProfileName(rec render.Record) string { return cmp.Or(rec.Profile, rec.Object) }

// older reports whether a revision of a MachineDeployment comes before another. What is
// no number does not.
func older(revision, than string) bool {
	a, errA := strconv.ParseUint(revision, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}
