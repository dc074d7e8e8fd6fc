package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// A Check says what is wrong with a profile beyond its form, above all with its
// templates. It is nil-safe to have none. Its answer must depend on the document
// alone. Several faults are joined; those of type *Problem keep their line.
type Check func(Document) error

// Catalogue is what a source holds: the versions its history ever held, which of
// them is current, and what was refused.
//
// It depends on the snapshot alone. A source that followed every push and one
// that starts today have the same.
type Catalogue struct {
	// Current is the version each profile has now, by name.
	Current []Version
	// Refused is what is wrong at the snapshot's revision, in the order of paths.
	Refused []*Refusal
	// History is every version that was ever accepted, by name, the oldest first.
	History map[string][]Version
}

// Version is one version of a profile.
type Version struct {
	// Name of the profile.
	Name string
	// Version as the file has it, for a directory's edited file with "-dirty." and 8 hex digits.
	Version string
	// Digest of the spec.
	Digest string
	// Commit is the first commit on the first-parent line that holds this
	// version with this digest, at any path.
	Commit source.Commit
	// CommittedAt is when Commit was made.
	CommittedAt time.Time
	// Path of the file at Commit.
	Path string
	// SelectedBy is the commit that made this version current, and CurrentPath
	// the file at the snapshot's revision. Both are set in Catalogue.Current only.
	SelectedBy  source.Commit
	CurrentPath string

	blob  string
	dirty bool
}

// Refusal is something a source offers and that is not applied.
type Refusal struct {
	Problem
	// Profile and Version are known when the file could be read.
	Profile, Version string
	// Commit is the last one on the line that changed the file.
	Commit source.Commit
}

func (r *Refusal) Error() string {
	if r.Commit == "" {
		return r.Problem.Error()
	}
	return r.Problem.Error() + " (commit " + short(r.Commit) + ")"
}

func short(c source.Commit) string { return string(c[:min(12, len(c))]) }

// Indexer makes catalogues of one source. It remembers what it read, so that the
// next catalogue costs only what is new. It is not safe for concurrent use.
type Indexer struct {
	// Check is asked about every profile in addition to Decode.
	Check Check

	blobs map[string]*reading
	line  *line
}

// reading is what one blob holds: profiles or problems, never both.
type reading struct {
	docs     []identity
	problems []*Problem // Path is empty: a blob may lie anywhere
}

type identity struct{ name, version, digest string }

type key struct{ name, version string }

// Catalogue indexes a snapshot.
func (x *Indexer) Catalogue(ctx context.Context, snap *source.Snapshot) (*Catalogue, error) {
	ln := x.line
	if ln == nil || !ln.isPrefixOf(snap) {
		ln = newLine()
	}
	for _, step := range snap.Line[ln.steps:] {
		if err := x.step(ctx, ln, snap, step); err != nil {
			return nil, err
		}
	}
	x.line = ln
	if tip := tipOf(snap); len(tip.Changes) > 0 {
		ln = ln.clone()
		if err := x.step(ctx, ln, snap, tip); err != nil {
			return nil, err
		}
	}
	if edits := ln.edits(snap); len(edits.Changes) > 0 {
		ln = ln.clone() // what is not committed is not remembered
		if err := x.step(ctx, ln, snap, edits); err != nil {
			return nil, err
		}
	}
	return ln.catalogue(x, snap), nil
}

// tipOf is all there is to know of a source whose history is cut off, a shallow
// clone: what its one commit holds.
func tipOf(snap *source.Snapshot) source.Step {
	step := source.Step{Commit: snap.Head}
	if len(snap.Line) > 0 || snap.Head == "" {
		return step
	}
	for _, f := range snap.Files {
		if !f.Dirty {
			step.Changes = append(step.Changes, source.Change{Path: f.Path, Blob: f.Blob})
		}
	}
	return step
}

// Document returns the profile of a version that a catalogue of this snapshot lists.
func (x *Indexer) Document(ctx context.Context, snap *source.Snapshot, v Version) (Document, error) {
	data, err := snap.Read(ctx, v.blob)
	if err != nil {
		return Document{}, fmt.Errorf("reading %s at %s: %w", v.Path, short(v.Commit), err)
	}
	docs, err := Decode(v.Path, data)
	if err != nil {
		return Document{}, err
	}
	for _, d := range docs {
		if v.dirty {
			d = asDirty(d)
		}
		if d.Name == v.Name && d.Digest == v.Digest {
			return d, nil
		}
	}
	return Document{}, fmt.Errorf("reading %s at %s: profile %q %s is not there", v.Path, short(v.Commit), v.Name, v.Version)
}

// step takes one step along the line.
func (x *Indexer) step(ctx context.Context, ln *line, snap *source.Snapshot, step source.Step) error {
	readings := map[string]*reading{}
	for _, c := range step.Changes {
		if c.Blob == "" {
			continue
		}
		r, err := x.read(ctx, snap, c.Blob, step.Commit == "")
		if err != nil {
			return fmt.Errorf("reading %s at %s: %w", c.Path, short(step.Commit), err)
		}
		readings[c.Path] = r
	}
	ln.apply(step, readings)
	return nil
}

// read decodes and checks a blob once.
func (x *Indexer) read(ctx context.Context, snap *source.Snapshot, blob string, dirty bool) (*reading, error) {
	id := blob
	if dirty {
		id += " dirty"
	}
	if r, ok := x.blobs[id]; ok {
		return r, nil
	}
	data, err := snap.Read(ctx, blob)
	if err != nil {
		if errors.Is(err, source.ErrInvalid) { // too big: the file's fault, not the repository's
			return &reading{problems: []*Problem{{Err: err}}}, nil
		}
		return nil, err
	}
	docs, err := Decode("", data)
	r := &reading{problems: Problems(err)}
	for _, d := range docs {
		if x.Check != nil {
			r.problems = append(r.problems, checkProblems(x.Check(d))...)
		}
		if dirty {
			d = asDirty(d)
		}
		r.docs = append(r.docs, identity{d.Name, d.Spec.Version, d.Digest})
	}
	if len(r.problems) > 0 {
		r.docs = nil
	}
	if x.blobs == nil {
		x.blobs = map[string]*reading{}
	}
	x.blobs[id] = r
	return r, nil
}

// checkProblems turns the answer of a Check into problems.
func checkProblems(err error) []*Problem {
	if err == nil {
		return nil
	}
	if ps := Problems(err); len(ps) > 0 {
		return ps
	}
	return []*Problem{{Err: err}}
}

// asDirty names the content of an edited file by its digest, so that an edit in
// a directory needs no new version.
func asDirty(d Document) Document {
	spec := *d.Spec.DeepCopy()
	spec.Version += "-dirty." + dirtySuffix(d.Digest)
	d.Spec, d.Digest = spec, Digest(spec)
	return d
}

// dirtySuffix takes 8 hex digits of a digest that may stand in a version: a
// number there must not begin with 0.
func dirtySuffix(digest string) string {
	hex := strings.TrimPrefix(digest, digestRecipe)
	for i := 0; i+8 < len(hex); i++ {
		if w := hex[i : i+8]; w[0] != '0' || strings.ContainsAny(w, "abcdef") {
			return w
		}
	}
	return hex[:7] + "f"
}

// line is the state after some steps of a first-parent line.
type line struct {
	steps int
	last  source.Commit

	tree     map[string]*node    // files by path
	accepted map[key]Version     // what a version stands for: its first content
	first    map[identity]origin // where a content was seen first
	order    map[string][]key    // accepted versions by profile, in the order of acceptance
	selected map[string]Version  // current versions by profile
}

type origin struct {
	commit source.Commit
	at     time.Time
	path   string
	blob   string
	dirty  bool
}

// node is a file on the line.
type node struct {
	reading *reading
	good    []identity // what it held when it could last be read
	changed source.Commit
}

func newLine() *line {
	return &line{
		tree: map[string]*node{}, accepted: map[key]Version{}, first: map[identity]origin{},
		order: map[string][]key{}, selected: map[string]Version{},
	}
}

func (ln *line) clone() *line {
	c := *ln
	c.tree, c.accepted, c.first = maps.Clone(ln.tree), maps.Clone(ln.accepted), maps.Clone(ln.first)
	c.order, c.selected = maps.Clone(ln.order), maps.Clone(ln.selected)
	for k, v := range c.order {
		c.order[k] = slices.Clone(v)
	}
	return &c
}

func (ln *line) isPrefixOf(snap *source.Snapshot) bool {
	return ln.steps <= len(snap.Line) && (ln.steps == 0 || snap.Line[ln.steps-1].Commit == ln.last)
}

// edits is what a directory holds beyond its last commit, as one more step.
func (ln *line) edits(snap *source.Snapshot) source.Step {
	var step source.Step
	there := map[string]bool{}
	for _, f := range snap.Files {
		there[f.Path] = true
		if f.Dirty {
			step.Changes = append(step.Changes, source.Change{Path: f.Path, Blob: f.Blob})
		}
	}
	for _, r := range snap.Refused {
		there[r.Path] = true // not gone, only not readable
	}
	for path := range ln.tree {
		if !there[path] {
			step.Changes = append(step.Changes, source.Change{Path: path})
		}
	}
	return step
}

// apply takes a step: it updates the tree, then selects anew for every profile
// the changed files had or have.
func (ln *line) apply(step source.Step, readings map[string]*reading) {
	touched := map[string]bool{}
	touch := func(ids []identity) {
		for _, id := range ids {
			touched[id.name] = true
		}
	}
	for _, c := range step.Changes {
		old := ln.tree[c.Path]
		if old != nil {
			touch(old.good)
		}
		if c.Blob == "" {
			delete(ln.tree, c.Path)
			continue
		}
		n := &node{reading: readings[c.Path], changed: step.Commit}
		n.good = n.reading.docs
		if len(n.reading.problems) > 0 && old != nil {
			n.good = old.good // a broken file stands for what it held before
		}
		touch(n.good)
		ln.tree[c.Path] = n
		for _, id := range n.reading.docs {
			o := origin{commit: step.Commit, at: step.CommittedAt, path: c.Path, blob: c.Blob, dirty: step.Commit == ""}
			if had, ok := ln.first[id]; !ok || had.commit == o.commit && o.path < had.path {
				ln.first[id] = o
			}
		}
	}
	if step.Commit != "" {
		ln.steps++
		ln.last = step.Commit
	}
	for name := range touched {
		ln.selectVersion(name, step.Commit)
	}
}

// offer is one profile in one file of the tree.
type offer struct {
	path   string
	id     identity
	broken bool
}

// offers lists what the tree offers under a name, by path.
func (ln *line) offers(name string) []offer {
	var out []offer
	for path, n := range ln.tree {
		for _, id := range n.good {
			if id.name == name {
				out = append(out, offer{path: path, id: id, broken: len(n.reading.problems) > 0})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out
}

// verdict says why an offer is refused, nil when it is accepted.
func (ln *line) verdict(o offer, all []offer) error {
	for _, other := range all {
		if other.path != o.path && other.id.version == o.id.version && !other.broken && !o.broken {
			return fmt.Errorf("profile %q %s is also in %s: remove one of them, or give it another name or version", o.id.name, o.id.version, other.path)
		}
	}
	if had, ok := ln.accepted[key{o.id.name, o.id.version}]; ok && had.Digest != o.id.digest {
		return fmt.Errorf("the content of profile %q changed at %s, but its version is still %s, which stands for the content of %s: give it a new version",
			o.id.name, short(ln.first[o.id].commit), o.id.version, short(had.Commit))
	}
	return nil
}

// selectVersion decides which version of a profile the tree makes current. A
// refused offer stands for what its version was accepted with, so that a bad
// file never takes a good profile away.
func (ln *line) selectVersion(name string, commit source.Commit) {
	all := ln.offers(name)
	var best Version
	for _, o := range all {
		k := key{o.id.name, o.id.version}
		if !o.broken && ln.verdict(o, all) == nil {
			ln.accept(k, o.id)
		}
		v, ok := ln.accepted[k]
		if !ok {
			continue
		}
		v.CurrentPath = o.path
		if best.Name == "" || higher(v.Version, best.Version) {
			best = v
		}
	}
	if best.Name == "" {
		delete(ln.selected, name)
		return
	}
	best.SelectedBy = commit
	if had, ok := ln.selected[name]; ok && had.Version == best.Version && had.Digest == best.Digest {
		best.SelectedBy = had.SelectedBy
	}
	ln.selected[name] = best
}

func (ln *line) accept(k key, id identity) {
	if _, ok := ln.accepted[k]; ok {
		return
	}
	o := ln.first[id]
	ln.accepted[k] = Version{
		Name: id.name, Version: id.version, Digest: id.digest,
		Commit: o.commit, CommittedAt: o.at, Path: o.path, blob: o.blob, dirty: o.dirty,
	}
	ln.order[k.name] = append(ln.order[k.name], k)
}

// higher reports whether version a is to be preferred to b: releases before
// pre-releases, then by semantic version, then by text.
func higher(a, b string) bool {
	va, errA := ParseVersion(withoutDirt(a))
	vb, errB := ParseVersion(withoutDirt(b))
	if errA != nil || errB != nil {
		return a > b // Decode admits versions only
	}
	if pre := va.Prerelease() == ""; pre != (vb.Prerelease() == "") {
		return pre
	}
	if c := va.Compare(vb); c != 0 {
		return c > 0
	}
	return a > b
}

func withoutDirt(v string) string {
	if i := strings.LastIndex(v, "-dirty."); i > 0 {
		return v[:i]
	}
	return v
}

// catalogue reads the answer off the state.
func (ln *line) catalogue(x *Indexer, snap *source.Snapshot) *Catalogue {
	c := &Catalogue{History: make(map[string][]Version, len(ln.order))}
	for _, name := range slices.Sorted(maps.Keys(ln.selected)) {
		c.Current = append(c.Current, ln.selected[name])
	}
	for name, keys := range ln.order {
		for _, k := range keys {
			c.History[name] = append(c.History[name], ln.accepted[k])
		}
	}
	for _, r := range snap.Refused {
		c.Refused = append(c.Refused, &Refusal{Problem: Problem{Path: r.Path, Err: errors.New(r.Reason)}, Commit: snap.Head})
	}
	for _, path := range slices.Sorted(maps.Keys(ln.tree)) {
		c.Refused = append(c.Refused, ln.refusals(path)...)
	}
	x.addLines(snap, c.Refused)
	return c
}

func (ln *line) refusals(path string) []*Refusal {
	var out []*Refusal
	n := ln.tree[path]
	for _, p := range n.reading.problems {
		r := &Refusal{Problem: *p, Commit: n.changed}
		r.Path = path
		out = append(out, r)
	}
	for _, id := range n.reading.docs {
		o := offer{path: path, id: id}
		if err := ln.verdict(o, ln.offers(id.name)); err != nil {
			out = append(out, &Refusal{
				Problem: Problem{Path: path, Field: "spec.version", Err: err},
				Profile: id.name, Version: id.version, Commit: n.changed,
			})
		}
	}
	return out
}

// addLines finds the lines of refusals that only comparing files could find.
func (x *Indexer) addLines(snap *source.Snapshot, refused []*Refusal) {
	for _, r := range refused {
		if r.Line != 0 || r.Profile == "" {
			continue
		}
		i := slices.IndexFunc(snap.Files, func(f source.File) bool { return f.Path == r.Path })
		if i < 0 {
			continue
		}
		docs, err := Decode(r.Path, snap.Files[i].Data)
		if err != nil {
			continue
		}
		for _, d := range docs {
			if d.Name == r.Profile {
				r.Line = d.Line(r.Field)
			}
		}
	}
}
