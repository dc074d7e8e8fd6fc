package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// historyWalk is the state after some steps of a first-parent history.
type historyWalk struct {
	steps int
	last  source.Commit

	tree     map[string]*treeFile // files by path
	accepted map[key]Version      // the first content of each version
	first    map[identity]origin  // where each content appeared first
	broken   map[key]*Rejection   // the latest invalid file of each version
	order    map[string][]key     // accepted versions by profile, in the order of acceptance
	selected map[string]Version   // current versions by profile
}

type origin struct {
	commit source.Commit
	at     time.Time
	path   string
	blob   string
	dirty  bool
	from   *Version
}

// treeFile is a file of the history. It is immutable: several states share it.
type treeFile struct {
	blob     string
	reading  *reading
	overlays []overlaid // one per overlay of the reading
	before   []identity // its content when it was last valid
	changed  source.Commit
}

// fileProfile is a profile that a file provides.
type fileProfile struct {
	path   string
	id     identity
	broken bool // the file is invalid now: this is its earlier content
}

// providedProfiles lists the profiles that a file provides. For an invalid file, and for each
// overlay that cannot be resolved, these are its earlier profiles.
func (n *treeFile) providedProfiles(path string) []fileProfile {
	var out []fileProfile
	if len(n.reading.problems) > 0 {
		for _, id := range n.before {
			out = append(out, fileProfile{path, id, true})
		}
		return out
	}
	for _, id := range n.reading.docs {
		out = append(out, fileProfile{path, id, false})
	}
	for i, o := range n.overlays {
		name := n.reading.overlays[i].Name
		switch {
		case o.good():
			out = append(out, fileProfile{path, o.id, false})
		case o.isUnresolved(): // it occupies its name and version nevertheless
			out = append(out, fileProfile{path, identity{name: name, version: n.reading.overlays[i].Spec.Version}, false})
		default:
			for _, id := range n.before {
				if id.name == name {
					out = append(out, fileProfile{path, id, true})
				}
			}
		}
	}
	return out
}

func newHistoryWalk() *historyWalk {
	return &historyWalk{
		tree: map[string]*treeFile{}, accepted: map[key]Version{}, first: map[identity]origin{},
		broken: map[key]*Rejection{}, order: map[string][]key{}, selected: map[string]Version{},
	}
}

func (walk *historyWalk) clone() *historyWalk {
	c := *walk
	c.tree = maps.Clone(walk.tree)
	c.accepted = maps.Clone(walk.accepted)
	c.first = maps.Clone(walk.first)
	c.broken = maps.Clone(walk.broken)
	c.order = maps.Clone(walk.order)
	c.selected = maps.Clone(walk.selected)
	for k, v := range c.order {
		c.order[k] = slices.Clone(v)
	}
	return &c
}

func (walk *historyWalk) isPrefixOf(snap *source.Snapshot) bool {
	return walk.steps <= len(snap.Line) && (walk.steps == 0 || snap.Line[walk.steps-1].Commit == walk.last)
}

// uncommittedStep returns the uncommitted files of a directory as one more step.
func (walk *historyWalk) uncommittedStep(snap *source.Snapshot) source.HistoryEntry {
	var step source.HistoryEntry
	existing := map[string]bool{}
	for _, f := range snap.Files {
		existing[f.Path] = true
		if f.Dirty {
			step.Changes = append(step.Changes, source.Change{Path: f.Path, Blob: f.Blob})
		}
	}
	for _, r := range snap.Rejected {
		existing[r.Path] = true // unreadable, but not deleted
	}
	if existing[source.MoreRejected] {
		return step // a file that is not listed can still exist
	}
	for path := range walk.tree {
		if !existing[path] {
			step.Changes = append(step.Changes, source.Change{Path: path})
		}
	}
	return step
}

// apply applies a step: it updates the tree, and accepts the complete profiles of the
// changed files. It returns the names that these files had or have; call selectCurrentVersion
// for them.
func (walk *historyWalk) apply(step source.HistoryEntry, readings map[string]*reading) map[string]bool {
	touched := map[string]bool{}
	for _, c := range step.Changes {
		var before []identity
		if old := walk.tree[c.Path]; old != nil {
			for _, p := range old.providedProfiles(c.Path) {
				touched[p.id.name] = true
				before = append(before, p.id)
			}
		}
		if c.Blob == "" {
			delete(walk.tree, c.Path)
			continue
		}
		r := readings[c.Path]
		n := &treeFile{blob: c.Blob, reading: r, overlays: make([]overlaid, len(r.overlays)), before: before, changed: step.Commit}
		for _, p := range n.providedProfiles(c.Path) {
			touched[p.id.name] = true
		}
		walk.tree[c.Path] = n
		walk.recordInvalid(n.reading, c.Path, step.Commit)
		for _, id := range n.reading.docs {
			walk.recordFirstSeen(id, origin{commit: step.Commit, at: step.CommittedAt, path: c.Path, blob: c.Blob, dirty: n.reading.dirty})
		}
	}
	if step.Commit != "" {
		walk.steps++
		walk.last = step.Commit
	}
	for name := range touched {
		walk.acceptValid(walk.profilesNamed(name))
	}
	return touched
}

// recordFirstSeen records where a content appeared first.
func (walk *historyWalk) recordFirstSeen(id identity, o origin) {
	if had, ok := walk.first[id]; !ok || had.commit == o.commit && o.path < had.path {
		walk.first[id] = o
	}
}

// recordInvalid records the versions of a file that is invalid.
func (walk *historyWalk) recordInvalid(r *reading, path string, commit source.Commit) {
	for _, k := range r.broken {
		first := *r.problems[0]
		first.Path = path
		walk.broken[k] = &Rejection{Problem: first, Profile: k.name, Version: k.version, Commit: commit}
	}
}

// allProfiles lists all profiles in the tree, by name and path.
func (walk *historyWalk) allProfiles() map[string][]fileProfile {
	out := map[string][]fileProfile{}
	for _, path := range slices.Sorted(maps.Keys(walk.tree)) {
		for _, p := range walk.tree[path].providedProfiles(path) {
			out[p.id.name] = append(out[p.id.name], p)
		}
	}
	return out
}

// profilesNamed lists the profiles with a name in the tree, by path.
func (walk *historyWalk) profilesNamed(name string) []fileProfile {
	var out []fileProfile
	for path, n := range walk.tree {
		for _, p := range n.providedProfiles(path) {
			if p.id.name == name {
				out = append(out, p)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b fileProfile) int { return strings.Compare(a.path, b.path) })
	return out
}

// whyRejected returns why an offer is rejected, nil if it is accepted.
func (walk *historyWalk) whyRejected(o fileProfile, all []fileProfile) error {
	for _, other := range all {
		if other.path != o.path && other.id.version == o.id.version && !other.broken && !o.broken {
			return fmt.Errorf("profile %q %s is also in %s: remove one of them, or change its name or version", o.id.name, o.id.version, other.path)
		}
	}
	if had, ok := walk.accepted[key{o.id.name, o.id.version}]; ok && had.Digest != o.id.digest {
		return fmt.Errorf("the content of profile %q changed at %s, but its version is still %s, which has the content of %s: give it a new version",
			o.id.name, shortCommit(walk.first[o.id].commit), o.id.version, shortCommit(had.Commit))
	}
	return nil
}

// selectCurrentVersion decides which version of a profile is current at a commit: of the accepted
// versions in the tree, the one that version.IsPreferred prefers. Without any, the profile has no
// current version. For a rejected file, the content accepted earlier for its version remains, so that
// an invalid file never removes a valid profile.
func (walk *historyWalk) selectCurrentVersion(name string, commit source.Commit) {
	inTree := walk.profilesNamed(name)
	walk.acceptValid(inTree)
	var best Version
	for _, p := range inTree {
		v, ok := walk.accepted[key{p.id.name, p.id.version}]
		if !ok {
			continue
		}
		v.CurrentPath = p.path
		if best.Name == "" || version.IsPreferred(v.Version, best.Version) {
			best = v
		}
	}
	if best.Name == "" {
		delete(walk.selected, name)
		return
	}
	best.SelectedBy = commit
	if previous, ok := walk.selected[name]; ok && previous.Version == best.Version && previous.Digest == best.Digest {
		best.SelectedBy = previous.SelectedBy
	}
	walk.selected[name] = best
}

// acceptValid accepts the valid candidates of one name.
func (walk *historyWalk) acceptValid(all []fileProfile) {
	for _, o := range all {
		if !o.broken && o.id.digest != "" && walk.whyRejected(o, all) == nil {
			walk.acceptVersion(key{o.id.name, o.id.version}, o.id)
		}
	}
}

// acceptVersion adds a version to the history, unless it is accepted already.
func (walk *historyWalk) acceptVersion(k key, id identity) {
	if _, ok := walk.accepted[k]; ok {
		return
	}
	o := walk.first[id]
	walk.accepted[k] = Version{
		Name: id.name, Version: id.version, Digest: id.digest,
		Commit: o.commit, CommittedAt: o.at, Path: o.path, blob: o.blob, dirty: o.dirty,
		From: o.from,
	}
	walk.order[k.name] = append(walk.order[k.name], k)
}

// newCatalog returns the catalogue of the state.
func (walk *historyWalk) newCatalog(x *Indexer, snap *source.Snapshot) *Catalog {
	c := &Catalog{History: make(map[string][]Version, len(walk.order))}
	all := walk.allProfiles()
	at, validAtHead := map[key]string{}, map[identity]bool{}
	for _, candidates := range all {
		for _, o := range candidates {
			at[key{o.id.name, o.id.version}] = o.path
			validAtHead[o.id] = validAtHead[o.id] || !o.broken
		}
	}
	for _, name := range slices.Sorted(maps.Keys(walk.selected)) {
		v := walk.selected[name]
		v.From, v.AtHead = walk.withCurrentPath(v.From), validAtHead[identity{v.Name, v.Version, v.Digest}]
		c.Current = append(c.Current, v)
	}
	for name, keys := range walk.order {
		for _, k := range keys {
			v := walk.accepted[k]
			v.CurrentPath = at[k]
			v.From = walk.withCurrentPath(v.From)
			v.AtHead = validAtHead[identity{v.Name, v.Version, v.Digest}]
			c.History[name] = append(c.History[name], v)
		}
	}
	c.Skipped = walk.historicalRejections()
	for _, r := range snap.Rejected {
		c.Rejected = append(c.Rejected, &Rejection{Problem: strictyaml.Problem{Path: r.Path, Err: errors.New(r.Reason)}, Commit: snap.Head})
	}
	for _, path := range slices.Sorted(maps.Keys(walk.tree)) {
		c.Rejected = append(c.Rejected, walk.listRejections(path, all)...)
	}
	x.addProblemLines(snap, c.Rejected)
	return c
}

// filesWith lists the files in the tree that have the content of a version.
func (walk *historyWalk) filesWith(v Version) []string {
	var out []string
	for _, o := range walk.profilesNamed(v.Name) {
		if !o.broken && o.id.version == v.Version && o.id.digest == v.Digest {
			out = append(out, o.path)
		}
	}
	return out
}

// historicalRejections lists versions that only earlier commits have and that are invalid.
func (walk *historyWalk) historicalRejections() []*Rejection {
	present := map[key]bool{}
	for _, n := range walk.tree {
		for _, k := range n.reading.broken {
			present[k] = true
		}
		for _, o := range n.reading.overlays {
			present[keyOf(o)] = true
		}
	}
	var out []*Rejection
	for k, r := range walk.broken {
		if _, ok := walk.accepted[k]; !ok && !present[k] {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Rejection) int {
		return cmp.Or(strings.Compare(a.Profile, b.Profile), strings.Compare(a.Version, b.Version))
	})
	return out
}

// listRejections returns the problems of a file in the tree, of its overlays, and of its profiles
// that are not accepted.
func (walk *historyWalk) listRejections(path string, all map[string][]fileProfile) []*Rejection {
	var out []*Rejection
	n := walk.tree[path]
	for _, p := range n.reading.problems {
		r := &Rejection{Problem: *p, Commit: n.changed}
		r.Path = path
		out = append(out, r)
	}
	for i, o := range n.overlays {
		out = append(out, o.rejections(path, n.reading.overlays[i], n.changed)...)
	}
	for _, p := range n.providedProfiles(path) {
		if p.broken {
			continue
		}
		if err := walk.whyRejected(p, all[p.id.name]); err != nil {
			out = append(out, &Rejection{
				Problem: strictyaml.Problem{Path: path, Field: "spec.version", Err: err},
				Profile: p.id.name, Version: p.id.version, Commit: n.changed,
			})
		}
	}
	return out
}
