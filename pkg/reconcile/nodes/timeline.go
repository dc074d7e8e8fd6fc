package nodes

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// leeway is how far two times of the API server may be apart that belong together.
	// They have whole seconds, several API servers have several clocks, and a pool's
	// Secrets follow its OperatingSystemConfig by a few requests.
	leeway = 5 * time.Second
	// bridge is the longest time between two configurations of a pool, neither of which
	// names the other, for which the first is taken to have served: a controller that is
	// cut off between the two leaves the pool's Secrets as they are. Over more than that,
	// others may have served it.
	bridge = 10 * time.Minute
)

// generation is a configuration that a pool had for a time.
type generation struct {
	inputDigest      string
	profile, version string
	commit           string
	revision         string // of the MachineDeployment, at its end
	selectedBy       string
	from             time.Time
	until            time.Time // when the pool had another, or none; zero: it has it
	record           string    // the ControllerRevision with its record; empty: the OperatingSystemConfig
	unrecorded       bool      // it came in place of one that there is no record of
}

// config is what a node reports of a generation.
func (g generation) config() string { return render.ShortDigest(g.inputDigest) }

// during reports whether the pool had the generation at some time of a window, or for
// so long before its end that a document of it may have been fetched in the window.
func (g generation) during(w api.ProvenanceWindow, late time.Duration) bool {
	if g.from.After(w.Until.Add(leeway)) {
		return false
	}
	return g.until.IsZero() || w.From == nil || g.until.Add(late).After(w.From.Time)
}

// ref is a generation as it is told of.
func (g generation) ref() api.PossibleConfiguration {
	p := api.PossibleConfiguration{
		InputDigest: g.inputDigest, Profile: g.profile, Version: g.version, Commit: g.commit, From: metav1.NewTime(g.from),
	}
	if !g.until.IsZero() {
		until := metav1.NewTime(g.until)
		p.Until = &until
	}
	return p
}

// timeline are the generations of a pool, oldest first. They do not overlap.
type timeline []generation

// current is the generation that the pool has.
func (t timeline) current() (generation, bool) {
	if n := len(t); n > 0 && t[n-1].until.IsZero() {
		return t[n-1], true
	}
	return generation{}, false
}

// within are the generations that the pool had during a window.
func (t timeline) within(w api.ProvenanceWindow) timeline {
	var out timeline
	for _, g := range t {
		if g.during(w, leeway) {
			out = append(out, g)
		}
	}
	return out
}

// has finds the generation with a digest, or with its first digits. Of several times
// that the pool had it, the first that fits comes first, then the last one.
func (t timeline) has(config string, fits func(generation) bool) (g generation, found bool) {
	for _, candidate := range t {
		if candidate.config() != config {
			continue
		}
		if g, found = candidate, true; fits(candidate) {
			return g, true
		}
	}
	return g, found
}

// entry is a generation before it is put in order.
type entry struct {
	generation

	uid, replaces types.UID // of OperatingSystemConfigs
	pool          string    // uid of the MachineDeployment; empty where it is not known
}

// interval is what orders the entry among others.
func (e entry) interval() api.Interval {
	return api.Interval{From: metav1.NewTime(e.from), Until: metav1.NewTime(e.until), UID: e.uid, Replaces: e.replaces}
}

// came reports whether one came in place of another.
func (e entry) came(other entry) bool { return e.replaces != "" && e.replaces == other.uid }

// ofOnePool reports whether two may be of one MachineDeployment. One that is deleted and
// created again under its name is another.
func (e entry) ofOnePool(other entry) bool {
	return e.pool == "" || other.pool == "" || e.pool == other.pool
}

// newTimeline orders what is known of a pool: its configuration, nil for none, and its
// archived records, of which it reads annotations alone.
//
// The beginnings are the API server's times, as those of machines and nodes are. The
// ends are the controller's, whose clock may be wrong: where one configuration follows
// another, the one ends when the other begins.
func newTimeline(osc client.Object, records []metav1.PartialObjectMetadata) timeline {
	var entries []entry
	standing := types.UID("")
	if osc != nil {
		if e, ok := entryOf(osc); ok {
			entries = append(entries, e)
			standing = osc.GetUID()
		}
	}
	for i := range records {
		for _, e := range archivedEntries(&records[i]) {
			if e.uid != standing { // or its deletion was not done yet
				entries = append(entries, e)
			}
		}
	}
	lineage.Sort(entries, entry.interval)
	known := map[types.UID]bool{}
	for _, e := range entries {
		known[e.uid] = e.uid != ""
	}
	var out timeline
	for i, e := range entries {
		e.unrecorded = e.replaces != "" && !known[e.replaces]
		if i+1 < len(entries) {
			next := entries[i+1]
			follows := next.came(e) || known[next.replaces] || next.replaces == "" && next.ofOnePool(e) && !next.from.After(e.until.Add(bridge))
			if follows || e.until.IsZero() || e.until.After(next.from) {
				e.until = next.from
			}
		}
		out = append(out, e.generation)
	}
	return out
}

// entryOf reads the configuration of a pool. One without a record, or with one that
// was edited, says nothing.
func entryOf(osc client.Object) (entry, bool) {
	rec, ok := recordOf(osc)
	if !ok {
		return entry{}, false
	}
	return entry{
		generation: generation{
			inputDigest: rec.Digests.Input, profile: nameOf(rec), version: rec.Version, commit: rec.Commit, selectedBy: rec.SelectedBy,
			revision: osc.GetAnnotations()[api.AnnotationRevisionFor], from: osc.GetCreationTimestamp().Time,
		},
		uid: osc.GetUID(), replaces: types.UID(osc.GetAnnotations()[api.AnnotationReplaces]), pool: osc.GetAnnotations()[api.AnnotationPoolUID],
	}, true
}

// archivedEntries reads the annotations of an archived record.
func archivedEntries(obj client.Object) []entry {
	a := obj.GetAnnotations()
	if a[api.AnnotationInputDigest] == "" {
		return nil // edited by hand
	}
	var out []entry
	for _, in := range lineage.DecodeIntervals(a) {
		out = append(out, entry{
			generation: generation{
				inputDigest: a[api.AnnotationInputDigest], profile: a[api.AnnotationProfile], version: a[api.AnnotationVersion],
				commit: a[api.AnnotationCommit], selectedBy: in.SelectedBy, revision: in.Revision,
				from: in.From.Time, until: in.Until.Time, record: obj.GetName(),
			},
			uid: in.UID, replaces: in.Replaces, pool: a[api.AnnotationPoolUID],
		})
	}
	return out
}

// recordOf reads the record of a configuration, if it is as it was written.
func recordOf(osc client.Object) (render.Record, bool) {
	return readRecord([]byte(osc.GetAnnotations()[api.AnnotationRecord]))
}

func readRecord(text []byte) (rec render.Record, ok bool) {
	if json.Unmarshal(text, &rec) != nil || rec.Object == "" || rec.InputDigest() != rec.Digests.Input {
		return render.Record{}, false
	}
	return rec, true
}

// nameOf is the profile of a record; of one made by hand it is the object's name.
func nameOf(rec render.Record) string { return cmp.Or(rec.Profile, rec.Object) }

// older reports whether a revision of a MachineDeployment comes before another. What is
// no number does not.
func older(revision, than string) bool {
	a, errA := strconv.ParseUint(revision, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}
