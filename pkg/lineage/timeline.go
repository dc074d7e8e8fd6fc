package lineage

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// Leeway is the largest difference between two times of the API server that belong together.
	// They have whole seconds, several API servers have several clocks, and a pool's Secrets are
	// written a few requests after its OperatingSystemConfig.
	Leeway = 5 * time.Second
	// Bridge is the longest time between two configurations of a pool, neither of which names the
	// other, for which the first one is assumed to have remained active: a controller that is
	// interrupted between the two does not change the pool's Secrets. During a longer time another
	// program can have served the pool.
	Bridge = 10 * time.Minute
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
	// Archived is when the controller archived it, by the clock of the controller. It is zero if the
	// pool still has it, or if the archived interval has no end. Until is the begin of the next one
	// if that followed.
	Archived time.Time
	// Record names the ControllerRevision with the record. It is empty if the record is
	// on the pool's OperatingSystemConfig.
	Record string
	// Unrecorded says that the configuration replaced one without a record.
	Unrecorded bool
	// UID is that of the OperatingSystemConfig, Replaces that of the one before it.
	UID, Replaces types.UID
	// PoolUID is that of the MachineDeployment, empty if it is not known.
	PoolUID string
}

// ConfigLabel is the value of the label api.LabelConfig on a node of the generation.
func (g Generation) ConfigLabel() string { return render.ShortDigest(g.InputDigest) }

// WasCurrentDuring reports whether the pool had the generation at some time of a window, or ended it so
// shortly before that a document of it can have been fetched in the window.
func (g Generation) WasCurrentDuring(w api.ProvenanceWindow, late time.Duration) bool {
	if g.From.After(w.Until.Add(Leeway)) {
		return false
	}
	return g.Until.IsZero() || w.From == nil || g.Until.Add(late).After(w.From.Time)
}

// CertainEnd returns until when the pool certainly had the generation. If the OperatingSystemConfig of
// the next one was created long after the controller archived this one, it can have been deleted and
// created again.
func (g Generation) CertainEnd() time.Time {
	end := g.Until
	if !g.Archived.IsZero() && end.Sub(g.Archived) > Leeway {
		end = g.Archived
	}
	return end.Add(-Leeway)
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

// MayHaveHad reports whether the pool can have had a generation in a window outside of its recorded
// interval: a record is missing, or its OperatingSystemConfig was created later. Those of a rebuilt
// cluster, and those that were deleted and created again, are younger than their nodes.
func (t Timeline) MayHaveHad(g Generation, w api.ProvenanceWindow) bool {
	return t.mayLackRecord(w) || g.From.After(w.Until.Time) && t.CanPrecedeCreation(g, w.Until.Time)
}

// CanPrecedeCreation reports whether the pool can have had a generation at a time before its
// OperatingSystemConfig was created. It is certain that it had not if it had an earlier one then.
func (t Timeline) CanPrecedeCreation(g Generation, at time.Time) bool {
	return !slices.ContainsFunc(t, func(earlier Generation) bool {
		return earlier.From.Before(g.From) && !earlier.From.After(at) && earlier.CertainEnd().After(at)
	})
}

// mayLackRecord reports whether the pool can have had a configuration within a window that has no
// record: its record was deleted, or the OperatingSystemConfig was, without the controller.
// A window without begin can be long, so it is always true for it.
func (t Timeline) mayLackRecord(w api.ProvenanceWindow) bool {
	if w.From == nil || len(t) == 0 || t[0].From.After(w.Until.Add(Leeway)) {
		return true
	}
	var servedUntil time.Time // until when the one before served
	for i, g := range t {
		isUnlinked := g.Unrecorded || i > 0 && g.Replaces == ""
		if isUnlinked && g.From.After(servedUntil) && servedUntil.Before(w.Until.Time) && g.From.After(w.From.Time) {
			return true
		}
		servedUntil = g.Until
	}
	return !servedUntil.IsZero() && servedUntil.Add(Leeway).Before(w.Until.Time)
}

// within are the generations that the pool had during a window.
func (t Timeline) within(w api.ProvenanceWindow) Timeline {
	var out Timeline
	for _, g := range t {
		if g.WasCurrentDuring(w, Leeway) {
			out = append(out, g)
		}
	}
	return out
}

// findByLabelPreferring finds the generation with a ConfigLabel. If the pool had it several times, the first
// one that fits is preferred, then the last one.
func (t Timeline) findByLabelPreferring(config string, fits func(Generation) bool) (g Generation, found bool) {
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

// interval is what orders the generation among others.
func (g Generation) interval() api.Interval {
	return api.Interval{From: metav1.NewTime(g.From), Until: metav1.NewTime(g.Until), UID: g.UID, Replaces: g.Replaces}
}

// directlyReplaces reports whether one came in place of another.
func (g Generation) directlyReplaces(other Generation) bool {
	return g.Replaces != "" && g.Replaces == other.UID
}

// mayShareMachineDeployment reports whether two generations can belong to one MachineDeployment. A
// MachineDeployment that is deleted and created again under its name is a different one.
func (g Generation) mayShareMachineDeployment(other Generation) bool {
	return g.PoolUID == "" || other.PoolUID == "" || g.PoolUID == other.PoolUID
}

// NewTimeline orders the generations of a pool: its configuration, nil for none, and its archived
// records, of which it reads only annotations.
func NewTimeline(osc metav1.Object, records []metav1.PartialObjectMetadata) Timeline {
	var current *Generation
	if osc != nil {
		if g, ok := GenerationFromIntactRecord(osc); ok {
			current = &g
		}
	}
	var archived []Generation
	for i := range records {
		archived = append(archived, GenerationsFromArchivedRecord(&records[i])...)
	}
	return Assemble(current, archived)
}

// Assemble orders generations: the current one, nil for none, and the archived ones.
//
// The begin times are the API server's, like those of machines and nodes. The end times are the
// controller's, whose clock can be wrong: if one configuration follows another, the first one ends
// when the second begins.
func Assemble(current *Generation, archived []Generation) Timeline {
	var out Timeline
	if current != nil {
		out = append(out, *current)
	}
	for _, g := range archived {
		if current == nil || g.UID != current.UID { // or its deletion was not done yet
			out = append(out, g)
		}
	}
	Sort(out, Generation.interval)
	recordedUIDs := map[types.UID]bool{}
	for _, g := range out {
		recordedUIDs[g.UID] = g.UID != ""
	}
	for i := range out {
		g := &out[i]
		// Of the configuration before this one only the uid is known.
		g.Unrecorded = g.Replaces != "" && !recordedUIDs[g.Replaces]
		if i+1 == len(out) {
			break
		}
		next := out[i+1]
		continues := next.directlyReplaces(*g) || recordedUIDs[next.Replaces] || next.Replaces == "" && next.mayShareMachineDeployment(*g) && !next.From.After(g.Until.Add(Bridge))
		if continues || g.Until.IsZero() || g.Until.After(next.From) {
			g.Until = next.From
		}
	}
	return out
}

// GenerationFromIntactRecord reads the generation of a pool's configuration from its record. It returns false if
// the record is missing or was edited.
func GenerationFromIntactRecord(osc metav1.Object) (Generation, bool) {
	rec, ok := IntactRecordOf(osc)
	g := AnnotatedGeneration(osc)
	g.InputDigest = rec.Digests.Input
	g.Profile = ProfileOrObjectName(rec)
	g.Version = rec.Version
	g.Commit, g.SelectedBy = rec.Commit, rec.SelectedBy
	return g, ok
}

// AnnotatedGeneration reads the generation of a pool's configuration from its annotations,
// without a check whether a user edited them.
func AnnotatedGeneration(osc metav1.Object) Generation {
	a := osc.GetAnnotations()
	return Generation{
		InputDigest: a[api.AnnotationInputDigest],
		Profile:     a[api.AnnotationProfile],
		Version:     a[api.AnnotationVersion],
		Commit:      a[api.AnnotationCommit],
		SelectedBy:  a[api.AnnotationSelectedBy],
		Revision:    a[api.AnnotationRevisionFor],
		From:        osc.GetCreationTimestamp().Time,
		UID:         osc.GetUID(),
		Replaces:    types.UID(a[api.AnnotationReplaces]),
		PoolUID:     a[api.AnnotationPoolUID],
	}
}

// GenerationsFromArchivedRecord reads the annotations of an archived record: one generation for
// each interval in which the pool had the configuration. It returns nil if the record has no input
// digest.
func GenerationsFromArchivedRecord(record metav1.Object) []Generation {
	a := record.GetAnnotations()
	if a[api.AnnotationInputDigest] == "" {
		return nil // edited by hand
	}
	var out []Generation
	for _, in := range DecodeIntervals(a) {
		g := AnnotatedGeneration(record)
		g.SelectedBy, g.Revision = in.SelectedBy, in.Revision
		g.From = in.From.Time
		g.Until = in.Until.Time
		g.Archived = in.Until.Time
		g.UID, g.Replaces = in.UID, in.Replaces
		g.Record = record.GetName()
		out = append(out, g)
	}
	return out
}

// ForMachine returns the generation whose documents a machine received: the one that its pool had
// when the machine was created, or the first one after that, because a machine without documents
// waits. Machines receive only documents of the revision of their MachineSet, so a generation that
// ended under an earlier one does not count.
func (t Timeline) ForMachine(created time.Time, revision string) (Generation, bool) {
	for i, g := range t {
		if i == len(t)-1 || g.Until.After(created) && !IsOlderRevision(g.Revision, revision) {
			return g, true
		}
	}
	return Generation{}, false
}

// IsOlderRevision reports whether a revision of a MachineDeployment precedes another. A revision that is not
// a number does not.
func IsOlderRevision(revision, than string) bool {
	a, errA := strconv.ParseUint(revision, 10, 64)
	b, errB := strconv.ParseUint(than, 10, 64)
	return errA == nil && errB == nil && a < b
}
