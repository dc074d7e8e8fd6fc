package impact

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// versionIndex has the profiles of one source at one revision.
type versionIndex struct {
	snapshot *source.Snapshot
	indexer  *catalog.Indexer
	catalog  *catalog.Catalog

	mu    sync.Mutex
	docs  map[identity]render.Profile
	plain map[string]bool // the answers of onlyPrintsPoolName, by digest
}

// identity is a version with its content.
type identity struct{ name, version, digest string }

func newVersionIndex(ctx context.Context, snapshot *source.Snapshot, indexer *catalog.Indexer) (*versionIndex, error) {
	s := &versionIndex{snapshot: snapshot, indexer: indexer, docs: map[identity]render.Profile{}, plain: map[string]bool{}}
	var err error
	s.catalog, err = indexer.Catalog(ctx, snapshot)
	return s, err
}

// newBuiltinIndex returns the profiles that are built in; nil if the indexer has none.
func newBuiltinIndex(ctx context.Context, indexer *catalog.Indexer) (*versionIndex, error) {
	if indexer.Builtin == nil {
		return nil, nil
	}
	snap, err := indexer.Builtin.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the built-in profiles: %w", err)
	}
	s, err := newVersionIndex(ctx, snap, indexer)
	if err != nil {
		return nil, fmt.Errorf("reading the built-in profiles: %w", err)
	}
	return s, nil
}

// rebaseSnapshot returns head with its content as the next commit on base, like the result of a
// merge. A cluster never sees the intermediate commits, so a pull request can still correct a
// version that it introduces.
func rebaseSnapshot(base, head *source.Snapshot) *source.Snapshot {
	out := *head
	out.Line = slices.Clone(base.Line)
	was := map[string]string{}
	for _, f := range base.Files {
		was[f.Path] = f.Blob
	}
	if len(out.Line) == 0 { // a shallow clone
		first := source.HistoryEntry{Commit: base.Head}
		for _, path := range slices.Sorted(maps.Keys(was)) {
			first.Changes = append(first.Changes, source.Change{Path: path, Blob: was[path]})
		}
		out.Line = append(out.Line, first)
	}
	step := source.HistoryEntry{Commit: head.Head}
	existing := map[string]bool{}
	for _, f := range head.Files {
		existing[f.Path] = true
		if !f.Dirty && was[f.Path] != f.Blob {
			step.Changes = append(step.Changes, source.Change{Path: f.Path, Blob: f.Blob})
		}
	}
	for _, r := range head.Rejected {
		existing[r.Path] = true // it exists, but is unreadable
	}
	for path := range was {
		if !existing[path] {
			step.Changes = append(step.Changes, source.Change{Path: path})
		}
	}
	slices.SortFunc(step.Changes, func(a, b source.Change) int { return cmp.Compare(a.Path, b.Path) })
	if len(step.Changes) > 0 {
		out.Line = append(out.Line, step)
	}
	return &out
}

// revision has the profiles that pools can use at a revision of the repository.
type revision struct {
	repository, builtin *versionIndex // builtin is nil for none
	inventories         []api.ProfileSource
}

// repositorySourceName is the name of the repository's ProfileSource.
const repositorySourceName = "this repository"

func newRevision(repository, builtin *versionIndex) *revision {
	r := &revision{repository: repository, builtin: builtin}
	r.inventories = []api.ProfileSource{newInventorySource(repositorySourceName, nil, repository.catalog)}
	if builtin != nil {
		r.inventories = append(r.inventories, newInventorySource(api.DefaultsName, &api.BuiltinSource{}, builtin.catalog))
	}
	return r
}

// newInventorySource returns a ProfileSource with the status that it has after its synchronization.
func newInventorySource(name string, builtin *api.BuiltinSource, cat *catalog.Catalog) api.ProfileSource {
	ps := api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ps.Spec.Builtin = builtin
	entries := map[string]api.ProfileEntry{}
	for name, history := range cat.History {
		e := api.ProfileEntry{Name: name, Removed: true}
		for _, v := range history {
			e.Version, e.Digest = v.Version, v.Digest
			e.Versions = append(e.Versions, v.Version)
		}
		entries[name] = e
	}
	for _, v := range cat.Current {
		e := entries[v.Name]
		e.Name = v.Name
		e.Version = v.Version
		e.Digest = v.Digest
		e.Removed = false
		entries[v.Name] = e
	}
	ps.Status.Profiles = slices.SortedFunc(maps.Values(entries), func(a, b api.ProfileEntry) int { return cmp.Compare(a.Name, b.Name) })
	return ps
}

// choice is the version that a pool gets at a revision.
type choice struct {
	from      *versionIndex // nil if no version was chosen
	builtin   bool
	version   catalog.Version
	removed   bool   // the profile was removed from the repository: only pools that have it retain it
	rejection string // why the pool's request is rejected
	undecided string // why the repository does not decide
	source    string // the other source of the profile, if known
}

// same reports whether two choices are the same version with the same content and source.
func (c choice) same(d choice) bool {
	return c.from != nil && d.from != nil && c.version.Version == d.version.Version && c.version.Digest == d.version.Digest &&
		c.builtin == d.builtin
}

// resolveRequest resolves the request of a pool in the controller's order: a profile of the
// repository, an object that a user created, a built-in profile.
func (r *revision) resolveRequest(want selection.Request, fleet *PoolSnapshot) choice {
	userSources, builtin := selection.SplitBuiltin(r.inventories)
	o, ok := selection.FindCandidate(userSources, want.Name)
	switch other := fleet.conflictingSource(want.Name); {
	case ok && other == "":
		return r.chooseCandidate(r.repository, want, o)
	case ok:
		return choice{source: other, undecided: fmt.Sprintf("the profile %s comes from the older ProfileSource %s", want.Name, other)}
	}
	if others := fleet.sourcesProviding(want.Name); len(others) > 0 {
		return choice{source: others[0], undecided: fmt.Sprintf("the profile %s comes from ProfileSource %s, and is not in this repository", want.Name, others[0])}
	}
	if slices.Contains(fleet.Unmanaged, want.Name) {
		return choice{undecided: fmt.Sprintf("a user created the OperatingSystemProfile %s", want.Name)}
	}
	if o, ok := selection.FindCandidate(builtin, want.Name); ok {
		return r.chooseCandidate(r.builtin, want, o)
	}
	return choice{undecided: fmt.Sprintf("the profile %s is not in this repository", want.Name)}
}

func (r *revision) chooseCandidate(from *versionIndex, want selection.Request, o selection.Candidate) choice {
	version := o.Entry.Version
	if want.Pin != nil {
		where := repositorySourceName
		if from == r.builtin {
			where = "the built-in ones"
		}
		best, err := want.BestVersion(where, o.Versions())
		if err != nil {
			return choice{rejection: err.Error()}
		}
		version = best
	}
	c := choice{from: from, builtin: from == r.builtin, removed: o.Entry.Removed}
	for _, v := range slices.Concat(from.catalog.History[want.Name], from.catalog.Current) {
		if v.Name == want.Name && v.Version == version {
			c.version = v // the path is set for the current version
		}
	}
	return c
}

// readProfile reads a version.
func (c choice) readProfile(ctx context.Context) (render.Profile, error) {
	s, v := c.from, c.version
	id := identity{v.Name, v.Version, v.Digest}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.docs[id]; ok {
		return p, nil
	}
	doc, err := s.indexer.Document(ctx, s.snapshot, v)
	if err != nil {
		return render.Profile{}, err
	}
	p := render.Profile{
		Spec: doc.Spec, Digest: doc.Digest, Object: profile.ObjectName(v.Name, v.Version, v.Digest),
		Provenance: render.Provenance{
			Profile: v.Name, Version: v.Version, Commit: string(v.Commit), Change: string(v.Commit),
			Repository: redact.PrintableLine(s.snapshot.Repository), Path: redact.PrintableLine(v.Path),
		},
		File: cmp.Or(v.CurrentPath, v.Path), Lines: doc.Line, FileOf: doc.FileOf,
	}
	if v.CurrentPath == "" && v.Commit != "" { // it was removed from the tree: use Git's form of its content
		p.File = fmt.Sprintf("%.12s:%s", v.Commit, v.Path)
	}
	s.docs[id] = p
	return p, nil
}
