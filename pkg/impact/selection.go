package impact

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Selection has the profiles from which pools choose, in one place at one revision.
type Selection struct {
	// Snapshot has profiles and their history, Documents those of a file without a history.
	// Both are empty for built-in profiles alone.
	Snapshot  *source.Snapshot
	Documents []profile.Document
	// Where names the place, for messages.
	Where string
	// Builtin are the built-in profiles, for pools and as bases of overlays.
	Builtin  *source.Embedded
	Clusters PoolSnapshot
	// Check validates a profile before it is used.
	Check catalog.Check
}

// Selected is what a pool gets, or has until its wave begins.
type Selected struct {
	Pool string // "namespace/name"
	// Input renders it.
	Input render.Input
	// Alike is equal for pools that differ only in their names.
	Alike string
	// Note has further information about the choice; "" for none.
	Note string
	// Err is the reason why Input is missing: an *UnknownProfileError, or an error to fix.
	Err error
}

// UnknownProfileError says that no profile has the name.
type UnknownProfileError struct {
	Name string
	// Existing lists the existing profiles.
	Existing []string
}

func (e *UnknownProfileError) Error() string { return fmt.Sprintf("profile %q not found", e.Name) }

// SelectVersions returns for every pool the version of its profile that the controller would choose,
// and the rejected files. A pool that waits for its wave is listed twice: with the new
// version, then with its current one. It returns errors of reading.
func (s Selection) SelectVersions(ctx context.Context) ([]Selected, []*catalog.Rejection, error) {
	s.Clusters.sortLists()
	now, err := s.readRevision(ctx)
	if err != nil {
		return nil, nil, err
	}
	var out []Selected
	for i, p := range s.Clusters.Pools {
		c, note, wrong := s.chooseVersion(now, p)
		if wrong != nil {
			out = append(out, Selected{Pool: redact.PrintableLine(p.Name()), Note: note, Err: wrong})
			continue
		}
		got, err := s.newSelected(ctx, i, c, note)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, got)
		if !s.isWaitingForWave(p, c) {
			continue
		}
		c, note = s.currentChoice(now, p)
		if got, err = s.newSelected(ctx, i, c, note); err != nil {
			return nil, nil, err
		}
		out = append(out, got)
	}
	return out, now.repository.catalog.Rejected, nil
}

// newSelected returns what pool i gets by a choice; without a version, only the note.
func (s Selection) newSelected(ctx context.Context, i int, c choice, note string) (got Selected, err error) {
	p := s.Clusters.Pools[i]
	got = Selected{Pool: redact.PrintableLine(p.Name()), Note: note}
	if c.from == nil {
		return got, nil
	}
	if got.Input, err = s.buildRenderInput(ctx, p, c); err != nil {
		return got, err
	}
	got.Alike, err = groupKey(ctx, i, p, choice{}, c)
	return got, err
}

// isWaitingForWave reports whether a pool has another version of its profile than the new one, and can
// have it until its wave begins.
func (s Selection) isWaitingForWave(p Pool, next choice) bool {
	v := next.version
	return p.Current != nil && p.Current.Profile == v.Name && p.Current.Version != v.Version && p.Annotations[api.AnnotationVersionPin] == "" && s.Clusters.hasWaves(v.Name)
}

// currentChoice returns the version that a pool has. If its content is not available here, the
// note says so and no version is chosen.
func (s Selection) currentChoice(now *revision, p Pool) (c choice, note string) {
	want, err := selection.RequestOf(p.Annotations, nil, s.Clusters.Namespace)
	if err == nil {
		want, err = pinToDeployedVersion(*p.Current, want)
	}
	if err == nil {
		c = now.resolveRequest(want, &s.Clusters)
	}
	if c.from == nil {
		return choice{}, fmt.Sprintf("it has %s %s until its wave begins, which is not in %s: the downloads of that version are not listed", redact.PrintableLine(p.Current.Profile), redact.PrintableLine(p.Current.Version), s.Where)
	}
	return c, ""
}

func (s Selection) readRevision(ctx context.Context) (*revision, error) {
	repository := newDocumentIndex(s.Documents)
	if s.Snapshot != nil {
		var err error
		if repository, err = newVersionIndex(ctx, s.Snapshot, s.indexer()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.Where, err)
		}
	}
	builtin, err := newBuiltinIndex(ctx, s.indexer())
	return newRevision(repository, builtin), err
}

func (s Selection) indexer() *catalog.Indexer {
	return &catalog.Indexer{Check: s.Check, Builtin: s.Builtin}
}

func (s Selection) buildRenderInput(ctx context.Context, p Pool, c choice) (render.Input, error) {
	settings, ok := s.Clusters.Settings[p.Settings]
	if !ok {
		return render.Input{}, noSettings(p)
	}
	prof, err := c.readProfile(ctx)
	return inputWithPlaceholders(p, settings, prof), err
}

// chooseVersion resolves what a pool gets.
func (s Selection) chooseVersion(now *revision, p Pool) (c choice, note string, err error) {
	if p.Problem != "" {
		return c, "", errors.New(redact.CleanMessage(p.Problem))
	}
	want, err := selection.RequestOf(p.Annotations, nil, s.Clusters.Namespace)
	frozen, unclear := selection.Suspended(p.Annotations)
	if err := errors.Join(err, unclear); err != nil {
		return c, "", errors.New(redact.CleanMessage(err.Error()))
	}
	if want.Namespace != s.Clusters.Namespace {
		return c, "", fmt.Errorf("it uses a profile of namespace %s, whose ProfileSources are unknown here: to use %[2]s, set --machine-deployments and --namespace %[1]s", redact.PrintableLine(want.Namespace), s.Where)
	}
	switch {
	case frozen && p.Current == nil:
		note = fmt.Sprintf("annotation %s freezes the pool's configuration, which is unknown here: the result is for a pool without the annotation", api.AnnotationSuspend)
	case frozen:
		if want, err = pinToDeployedVersion(*p.Current, want); err != nil {
			return c, "", err
		}
	}
	c = now.resolveRequest(want, &s.Clusters)
	if c.removed && want.Pin == nil && p.Current != nil && want.IsSatisfiedBy(p.Current.Profile, p.Current.Version) {
		if want, err = pinToDeployedVersion(*p.Current, want); err != nil {
			return c, "", err
		}
		c = now.resolveRequest(want, &s.Clusters) // pools that have it retain it
	}
	if c.rejection != "" && s.Snapshot != nil && s.Snapshot.Head == "" && want.Pin.Allows(now.writtenVersion(want.Name)) {
		want.Pin = nil
		c = now.resolveRequest(want, &s.Clusters)
	}
	return c, note, s.rejectionOf(now, want, p, c)
}

// pinToDeployedVersion changes a request to the profile and version that a pool has.
func pinToDeployedVersion(has ProfileVersion, want selection.Request) (selection.Request, error) {
	pin, err := version.ParsePin(has.Version)
	if err != nil {
		return want, fmt.Errorf("the pool has %s %s, which is not a version", redact.PrintableLine(has.Profile), redact.PrintableLine(has.Version))
	}
	want.Name, want.Pin = has.Profile, &pin
	return want, nil
}

// rejectionOf returns the reason why a choice has no version.
func (s Selection) rejectionOf(now *revision, want selection.Request, p Pool, c choice) error {
	name := redact.PrintableLine(want.Name)
	switch {
	case c.source != "" && s.Clusters.conflictingSource(want.Name) != "":
		return fmt.Errorf("its profile %s comes from ProfileSource %s, not from %s: name the repository of that source", name, redact.PrintableLine(c.source), s.Where)
	case c.source != "":
		return fmt.Errorf("its profile %s comes from ProfileSource %s, and is not in %s: name the repository of that source", name, redact.PrintableLine(c.source), s.Where)
	case c.rejection != "" && s.Snapshot != nil && len(s.Snapshot.Line) > 0:
		return errors.New(redact.CleanMessage(c.rejection))
	case c.rejection != "":
		return fmt.Errorf("%s. %s has no history: for earlier versions, use a clone of the repository with the complete history", redact.CleanMessage(c.rejection), s.Where)
	case c.removed && p.Current != nil && !want.IsSatisfiedBy(p.Current.Profile, p.Current.Version):
		return errors.New(removed(name))
	case slices.Contains(s.Clusters.Unmanaged, want.Name) && c.from == nil:
		return fmt.Errorf("a user created its OperatingSystemProfile %s, which is not in %s: write it to a file there", name, s.Where)
	case c.from == nil:
		return &UnknownProfileError{Name: name, Existing: now.profileNames()}
	}
	return nil
}

// writtenVersion returns the version that the file of a profile has. In a folder without Git every
// version is an edited one.
func (r *revision) writtenVersion(name string) string {
	for _, v := range r.repository.catalog.Current {
		if v.Name == name {
			return version.TrimDirtySuffix(v.Version)
		}
	}
	return ""
}

// profileNames returns the profiles that a pool can request.
func (r *revision) profileNames() []string {
	var out []string
	for _, ps := range r.inventories {
		for _, e := range ps.Status.Profiles {
			if !e.Removed {
				out = append(out, e.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// newDocumentIndex wraps profiles that are already decoded.
func newDocumentIndex(docs []profile.Document) *versionIndex {
	s := &versionIndex{catalog: &catalog.Catalog{History: map[string][]catalog.Version{}}, docs: map[identity]render.Profile{}, plain: map[string]bool{}}
	current := map[string]catalog.Version{}
	for i := range docs {
		d := &docs[i]
		v := catalog.Version{Name: d.Name, Version: d.Spec.Version, Digest: d.Digest, Path: d.Path, CurrentPath: d.Path}
		s.catalog.History[d.Name] = append(s.catalog.History[d.Name], v)
		if had, ok := current[d.Name]; !ok || version.IsPreferred(v.Version, had.Version) {
			current[d.Name] = v
		}
		s.docs[identity{v.Name, v.Version, v.Digest}] = render.Profile{
			Spec: d.Spec, Object: profile.ObjectName(v.Name, v.Version, v.Digest), Digest: d.Digest,
			Provenance: render.Provenance{Profile: v.Name, Version: v.Version},
			File:       d.Path, Lines: d.Line, FileOf: d.FileOf,
		}
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		s.catalog.Current = append(s.catalog.Current, current[name])
	}
	return s
}
