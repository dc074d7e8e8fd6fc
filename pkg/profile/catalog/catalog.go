package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// A Check finds problems of a profile beyond its form, above all in its templates. It can
// be nil. Its result must depend on the document alone. Several errors are joined; those
// of type *Problem retain their line.
type Check func(profile.Document) error

// Catalog lists the profiles of a source: all versions in its history, the current
// ones, and what was rejected.
//
// It depends on the snapshot alone: a controller that followed every push and one that
// starts today get the same Catalog.
type Catalog struct {
	// Current is the current version of each profile, by name.
	Current []Version
	// Rejected are the problems at the snapshot's revision, ordered by path.
	Rejected []*Rejection
	// History has every version that was ever accepted, by profile, oldest first.
	History map[string][]Version
	// Skipped are the versions in earlier commits that today's rules reject and that are
	// neither in History nor in the snapshot, by name and version.
	Skipped []*Rejection
}

// Version is one version of a profile.
type Version struct {
	// Name of the profile.
	Name string
	// Version as in the file; for an edited file of a directory with "-dirty." and 8 hex
	// digits.
	Version string
	// Digest of the spec.
	Digest string
	// Commit is the first commit on the first-parent history that has this version with
	// this digest, at any path.
	Commit source.Commit
	// CommittedAt is when Commit was made.
	CommittedAt time.Time
	// Path of the file at Commit.
	Path string
	// SelectedBy is the commit that made this version current. It is set in
	// Catalog.Current only.
	SelectedBy source.Commit
	// CurrentPath is the file at the snapshot's revision, "" if it no longer exists.
	CurrentPath string
	// From is the base of a ProfileOverlay; nil if the file is a complete profile. Its
	// CurrentPath is "" if the file of the base has changed.
	From *Version
	// AtHead reports whether the file at CurrentPath has this content. If not, that file
	// is rejected, and the content of an earlier commit remains current.
	AtHead bool
	// Builtin reports whether it is one of Indexer.Builtin.
	Builtin bool

	blob  string
	dirty bool
}

// Rejection is a profile in a source that is rejected.
type Rejection struct {
	strictyaml.Problem
	// Profile and Version are set if the file could be read.
	Profile, Version string
	// Commit is the last commit on the first-parent history that changed the file.
	Commit source.Commit
	// Overlay is the rejected file if it differs from Path: the text with the problem is
	// in the base of an overlay.
	Overlay string
}

// File returns the rejected file of the snapshot.
func (r *Rejection) File() string { return cmp.Or(r.Overlay, r.Path) }

func (r *Rejection) Error() string {
	if r.Commit == "" {
		return r.Problem.Error()
	}
	return r.Problem.Error() + " (commit " + shortCommit(r.Commit) + ")"
}

// shortCommit returns the beginning of a commit id, and an artifact's revision unchanged.
func shortCommit(c source.Commit) string {
	if _, err := source.ParseCommit(string(c)); err != nil {
		return string(c)
	}
	return string(c[:12])
}

// Indexer builds the catalogues of one source. It caches what it read, so the next
// catalogue costs only what is new. It is not safe for concurrent use.
type Indexer struct {
	// Check validates every profile in addition to Decode.
	Check Check
	// Builtin are the profiles in which the base of an overlay is searched last; nil for
	// none.
	Builtin *source.Embedded
	// CheckBase returns an error if an overlay in one file must not start from a base in
	// another file because other signers can change it. nil allows all. It is not called
	// for overlays that name a digest or a built-in base.
	CheckBase func(overlay, base string) error

	blobs    map[string]*reading
	walk     *historyWalk
	tip      *historyWalk // including what is not committed
	last     *Catalog     // of what is in seen
	seen     *source.Snapshot
	builtins map[key]profile.Document
	resolved map[string]resolution
}

// reading is the content of one blob: profiles or problems, never both.
type reading struct {
	docs     []identity
	overlays []profile.Overlay
	problems []*strictyaml.Problem // Path is empty: a blob can be at several paths
	broken   []key                 // the profiles it would have without problems, as far as known
	dirty    bool
}

type identity struct{ name, version, digest string }

type key struct{ name, version string }

func keyOf(o profile.Overlay) key { return key{o.Name, o.Spec.Version} }

// Catalog indexes a snapshot. Do not modify the result: equal snapshots share it.
func (x *Indexer) Catalog(ctx context.Context, snap *source.Snapshot) (*Catalog, error) {
	if x.seen != nil && equal(x.seen, snap) {
		return x.last, nil
	}
	cat, err := x.buildCatalog(ctx, snap)
	if err != nil {
		return nil, err
	}
	x.last, x.seen = cat, withoutContents(snap)
	return cat, nil
}

// withoutContents returns a copy of a snapshot with what a catalogue depends on, without the
// contents of the files.
func withoutContents(snap *source.Snapshot) *source.Snapshot {
	o := &source.Snapshot{Revision: snap.Revision, Head: snap.Head, Rejected: snap.Rejected, Line: snap.Line}
	for _, f := range snap.Files {
		f.Data = nil
		o.Files = append(o.Files, f)
	}
	return o
}

// equal compares a snapshot with the outline of another one. A commit has one
// first-parent history.
func equal(seen, snap *source.Snapshot) bool {
	return seen.Revision == snap.Revision && seen.Head == snap.Head && len(seen.Line) == len(snap.Line) &&
		slices.Equal(seen.Rejected, snap.Rejected) &&
		slices.EqualFunc(seen.Files, snap.Files, func(a, b source.File) bool {
			return a.Path == b.Path && a.Blob == b.Blob && a.Dirty == b.Dirty
		})
}

// buildCatalog continues the walk over the history, or starts a new one, and returns the catalog of
// its end.
func (x *Indexer) buildCatalog(ctx context.Context, snap *source.Snapshot) (*Catalog, error) {
	walk := x.walk
	if walk == nil || !walk.isPrefixOf(snap) {
		walk = newHistoryWalk()
	}
	for _, step := range snap.Line[walk.steps:] {
		if err := x.applyCommit(ctx, walk, snap, step, false); err != nil {
			return nil, err
		}
	}
	x.walk = walk
	if tip := currentFilesAsOnlyStep(snap); len(tip.Changes) > 0 {
		walk = walk.clone()
		if err := x.applyCommit(ctx, walk, snap, tip, false); err != nil {
			return nil, err
		}
	}
	if edits := walk.uncommittedStep(snap); len(edits.Changes) > 0 {
		walk = walk.clone() // edits that are not committed are not cached
		if err := x.applyCommit(ctx, walk, snap, edits, true); err != nil {
			return nil, err
		}
	}
	x.tip = walk
	return walk.newCatalog(x, snap), nil
}

// currentFilesAsOnlyStep returns the current files as the only step of a source whose history is truncated
// (a shallow clone) or that has none (the built-in profiles).
func currentFilesAsOnlyStep(snap *source.Snapshot) source.HistoryEntry {
	step := source.HistoryEntry{Commit: snap.Head}
	if len(snap.Line) > 0 {
		return step
	}
	for _, f := range snap.Files {
		if !f.Dirty {
			step.Changes = append(step.Changes, source.Change{Path: f.Path, Blob: f.Blob})
		}
	}
	return step
}

// ChangeOf returns the commit in which the author of a version wrote it, and the author.
// It is zero if the source has no history.
func ChangeOf(ctx context.Context, snap *source.Snapshot, v Version) (source.Author, error) {
	if v.Commit == "" || len(snap.Line) == 0 {
		return source.Author{}, nil
	}
	author, err := snap.LastChange(ctx, v.Commit, v.Path)
	if err != nil {
		return source.Author{}, fmt.Errorf("finding the author of %s at %s: %w", v.Path, v.Commit, err)
	}
	return author, nil
}

// Document returns the profile of a version in a catalogue of this snapshot, complete
// also if the file is an overlay.
func (x *Indexer) Document(ctx context.Context, snap *source.Snapshot, v Version) (profile.Document, error) {
	return x.documentAtPath(ctx, snap, v, v.Path)
}

// documentAtPath is Document with the path of the file.
func (x *Indexer) documentAtPath(ctx context.Context, snap *source.Snapshot, v Version, path string) (profile.Document, error) {
	if v.Builtin {
		docs, err := x.readBuiltinProfiles(ctx)
		return docs[key{v.Name, v.Version}], err
	}
	data, err := snap.Read(ctx, v.blob)
	if err != nil {
		return profile.Document{}, fmt.Errorf("reading %s at %s: %w", v.Path, shortCommit(v.Commit), err)
	}
	in, err := profile.DecodeFile(path, data)
	if err != nil {
		return profile.Document{}, err
	}
	docs := in.Profiles
	if v.From != nil {
		base, err := x.documentAtPath(ctx, snap, *v.From, v.From.fileForMessage())
		if err != nil {
			return profile.Document{}, fmt.Errorf("reading the base of %s: %w", path, err)
		}
		docs = nil
		for _, o := range in.Overlays {
			if d, err := overlay.Apply(o, base); err == nil && o.Name == v.Name {
				docs = append(docs, d)
			}
		}
	}
	for _, d := range docs {
		if v.dirty {
			d = d.AsDirty()
		}
		if d.Name == v.Name && d.Digest == v.Digest {
			return d, nil
		}
	}
	return profile.Document{}, fmt.Errorf("reading %s at %s: profile %q %s not found", v.Path, shortCommit(v.Commit), v.Name, v.Version)
}

// applyCommit applies one commit of the first-parent history. A dirty step has files that are
// not committed.
func (x *Indexer) applyCommit(ctx context.Context, walk *historyWalk, snap *source.Snapshot, applyCommit source.HistoryEntry, dirty bool) error {
	at := stage{commit: applyCommit.Commit, at: applyCommit.CommittedAt, dirty: dirty}
	readings := map[string]*reading{}
	for _, c := range applyCommit.Changes {
		if c.Blob == "" {
			continue
		}
		r, err := x.readBlob(ctx, snap, c.Blob, dirty)
		if err != nil {
			return fmt.Errorf("reading %s at %s: %w", c.Path, shortCommit(applyCommit.Commit), err)
		}
		readings[c.Path] = r
	}
	touched := walk.apply(applyCommit, readings)
	if err := x.resolveOverlays(ctx, walk, snap, at, touched); err != nil {
		return err
	}
	for name := range touched {
		walk.selectCurrentVersion(name, applyCommit.Commit)
	}
	return nil
}

// readBlob decodes and checks a blob, once.
func (x *Indexer) readBlob(ctx context.Context, snap *source.Snapshot, blob string, dirty bool) (*reading, error) {
	id := blob
	if dirty {
		id += " dirty"
	}
	if r, ok := x.blobs[id]; ok {
		return r, nil
	}
	data, err := snap.Read(ctx, blob)
	if err != nil {
		if errors.Is(err, source.ErrInvalid) { // too large: a problem of the file, not of the repository
			return &reading{problems: []*strictyaml.Problem{{Err: err}}}, nil
		}
		return nil, err
	}
	in, err := profile.DecodeFile("", data)
	r := &reading{overlays: in.Overlays, problems: strictyaml.Problems(err), dirty: dirty}
	for _, d := range in.Profiles {
		if x.Check != nil {
			r.problems = append(r.problems, problemsFromCheck(x.Check(d))...)
		}
		if dirty {
			d = d.AsDirty()
		}
		r.docs = append(r.docs, identity{d.Name, d.Spec.Version, d.Digest})
	}
	if len(r.problems) > 0 {
		r.docs, r.overlays = nil, nil
		for _, id := range profile.Identify(data) {
			r.broken = append(r.broken, key{id.Name, id.Version})
		}
	}
	if x.blobs == nil {
		x.blobs = map[string]*reading{}
	}
	x.blobs[id] = r
	return r, nil
}

// problemsFromCheck converts the error of a Check to problems.
func problemsFromCheck(err error) []*strictyaml.Problem {
	if ps := strictyaml.Problems(err); err == nil || len(ps) > 0 {
		return ps
	}
	return []*strictyaml.Problem{{Err: err}}
}

// addProblemLines finds the lines of problems that were found by comparing files.
func (x *Indexer) addProblemLines(snap *source.Snapshot, rejected []*Rejection) {
	for _, r := range rejected {
		if r.Line != 0 || r.Profile == "" {
			continue
		}
		i := slices.IndexFunc(snap.Files, func(f source.File) bool { return f.Path == r.Path })
		if i < 0 {
			continue
		}
		in, err := profile.DecodeFile(r.Path, snap.Files[i].Data)
		if err != nil {
			continue
		}
		for _, d := range in.Profiles {
			if d.Name == r.Profile {
				r.Line = d.Line(r.Field)
			}
		}
		for _, o := range in.Overlays {
			if o.Name == r.Profile {
				r.Line = o.Line(r.Field)
			}
		}
	}
}
