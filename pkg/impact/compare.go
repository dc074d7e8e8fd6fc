package impact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Comparison has the inputs of a comparison.
type Comparison struct {
	// Base and Head are snapshots of one repository; BaseName and HeadName are the names that
	// the user gave.
	Base, Head         *source.Snapshot
	BaseName, HeadName string
	// Builtin are the built-in profiles, for pools and as bases of overlays; nil for none.
	Builtin *source.Embedded
	// Snapshot has the pools.
	Snapshot PoolSnapshot
	// Engine renders; Check validates profiles.
	Engine *render.Engine
	Check  catalog.Check
}

// Compare reports the effect of head on the pools, compared with base. It returns errors of reading;
// errors in profiles and pools are in the report.
func Compare(ctx context.Context, c Comparison) (*Report, error) {
	c.Snapshot.sortLists()
	before, after, err := c.readRevisions(ctx)
	if err != nil {
		return nil, err
	}
	results, err := c.comparePools(ctx, before, after)
	if err != nil {
		return nil, err
	}
	// The host is known by its name only. There are no links for a work tree: no host shows its lines.
	links := githost.LinksOf(c.Head.Repository, nil)
	was, is := before.repository.catalog, after.repository.catalog
	rejected := append(rejectedFiles(is), conflictingProfiles(is, &c.Snapshot)...)
	for i, f := range rejected {
		rejected[i].URL = links.LineURL(string(c.Head.Head), f.Path, f.Line)
	}
	slices.SortStableFunc(rejected, func(a, b RejectedFile) int { return cmp.Compare(a.Path, b.Path) })
	r := &Report{
		Base:     Revision{Name: redact.PrintableLine(c.BaseName), Commit: string(c.Base.Head)},
		Head:     Revision{Name: redact.PrintableLine(c.HeadName), Commit: string(c.Head.Head), URL: links.CommitURL(string(c.Head.Head))},
		Profiles: profileChanges(was, is), RejectedFiles: rejected, Pools: len(results),
		Notes: append(describeUnraisedVersions(was, is), describeProfilesInOtherSources(was, is, &c.Snapshot)...),
	}
	r.groupResults(results)
	r.Summary = r.summarize()
	return r, nil
}

// readRevisions reads the profiles of base and head, and those that are built in.
func (c Comparison) readRevisions(ctx context.Context) (before, after *revision, err error) {
	was, err := newVersionIndex(ctx, c.Base, c.indexer())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the profiles of %s: %w", c.BaseName, err)
	}
	is, err := newVersionIndex(ctx, rebaseSnapshot(c.Base, c.Head), c.indexer())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the profiles of %s: %w", c.HeadName, err)
	}
	builtin, err := newBuiltinIndex(ctx, c.indexer())
	return newRevision(was, builtin), newRevision(is, builtin), err
}

func (c Comparison) indexer() *catalog.Indexer {
	return &catalog.Indexer{Check: c.Check, Builtin: c.Builtin}
}

func profileChanges(was, is *catalog.Catalog) []ProfileChange {
	before, after := map[string]catalog.Version{}, map[string]catalog.Version{}
	for _, v := range was.Current {
		before[v.Name] = v
	}
	for _, v := range is.Current {
		after[v.Name] = v
	}
	out := []ProfileChange{}
	for _, name := range sets.List(sets.KeySet(before).Union(sets.KeySet(after))) {
		from, had := before[name]
		to, has := after[name]
		p := ProfileChange{Name: name, Change: ProfileUpdated, From: from.Version, To: to.Version, Path: redact.PrintableLine(cmp.Or(to.CurrentPath, from.CurrentPath))}
		isSameVersion := func(v catalog.Version) bool { return v.Version == to.Version && v.Digest == to.Digest }
		switch {
		case had && has && from.Version == to.Version && from.Digest == to.Digest:
			continue
		case !has:
			p.Change = ProfileRemoved
		case !had:
			p.Change = ProfileAdded
		case slices.ContainsFunc(was.History[name], isSameVersion) || isLowerVersion(to.Version, from.Version):
			p.Change = ProfileRolledBack
		}
		out = append(out, p)
	}
	return out
}

// isLowerVersion reports whether a version precedes another. The "-dirty." of an edited version is a
// pre-release only in form.
func isLowerVersion(v, than string) bool {
	v, than = version.TrimDirtySuffix(v), version.TrimDirtySuffix(than)
	return v != than && version.SortDescending([]string{v, than})[0] == than
}

func rejectedFiles(cat *catalog.Catalog) []RejectedFile {
	out := []RejectedFile{}
	for _, r := range cat.Rejected {
		out = append(out, RejectedFile{
			Path: redact.PrintableLine(r.Path), Line: r.Line, Field: redact.PrintableLine(r.Field), Profile: redact.PrintableLine(r.Profile), Version: redact.PrintableLine(r.Version),
			Message: redact.CleanMessage(r.Err.Error()),
		})
	}
	return out
}

// conflictingProfiles returns the profiles that the repository cannot offer because another source has
// them.
func conflictingProfiles(is *catalog.Catalog, fleet *PoolSnapshot) []RejectedFile {
	var out []RejectedFile
	for _, v := range is.Current {
		if other := fleet.conflictingSource(v.Name); other != "" {
			out = append(out, RejectedFile{
				Path: redact.PrintableLine(v.CurrentPath), Profile: redact.PrintableLine(v.Name), Version: redact.PrintableLine(v.Version),
				Message: fmt.Sprintf("profile %s is already offered by ProfileSource %s: remove it from one of the two sources", redact.PrintableLine(v.Name), redact.PrintableLine(other)),
			})
		}
	}
	return out
}

// describeUnraisedVersions returns a note for each edited profile whose version stands for other
// content: it is valid uncommitted, and rejected once committed.
func describeUnraisedVersions(was, is *catalog.Catalog) []string {
	var out []string
	for _, v := range is.Current {
		written := version.TrimDirtySuffix(v.Version)
		used := slices.ContainsFunc(was.History[v.Name], func(h catalog.Version) bool { return h.Version == written && h.Digest != v.Digest })
		if written != v.Version && used {
			out = append(out, fmt.Sprintf("profile %s is edited, and its version is still %s: after a commit it will be rejected: raise spec.version in %s", redact.PrintableLine(v.Name), written, redact.PrintableLine(v.CurrentPath)))
		}
	}
	return out
}

// describeProfilesInOtherSources returns a note for each current profile that other ProfileSources
// offer as well. If the source of the repository is not known, one other source is only noted for a
// profile that the change adds.
func describeProfilesInOtherSources(was, is *catalog.Catalog, fleet *PoolSnapshot) []string {
	var out []string
	for _, v := range is.Current {
		others := fleet.sourcesProviding(v.Name)
		had := slices.ContainsFunc(was.Current, func(w catalog.Version) bool { return w.Name == v.Name })
		name, sources := redact.PrintableLine(v.Name), redact.PrintableLine(strings.Join(others, ", "))
		switch {
		case fleet.conflictingSource(v.Name) != "": // reported as rejected
		case len(others) > 1 || len(others) == 1 && fleet.ComparedSource != "":
			if fleet.ComparedSource != "" {
				sources += ", " + redact.PrintableLine(fleet.ComparedSource)
			}
			out = append(out, fmt.Sprintf("the ProfileSources %s offer the profile %s: the oldest of them is used until the others remove it, and this report is valid if that is the one of this repository", sources, name))
		case len(others) == 1 && !had && fleet.ComparedSource == "":
			out = append(out, fmt.Sprintf("ProfileSource %s already offers the profile %s: unless that is the one of this repository, %s is rejected, and pools retain the profile of %[1]s (set --source to the one of this repository)", sources, name, redact.PrintableLine(v.CurrentPath)))
		}
	}
	return out
}

// result is the effect on a pool: either rejection, unchanged, or files with affected.
type result struct {
	pool      string
	rejection string
	before    bool   // also rejected at base
	unchanged string // why nothing changes

	profile, from, to string
	files             []FileDiff
	affected          Affected
	fold              string // equal for pools with equal differences
}

// resolvePool resolves what a pool gets at base and head, before rendering.
func (c Comparison) resolvePool(p Pool, before, after *revision) (r result, was, is choice) {
	r.pool = redact.PrintableLine(p.Name())
	labels := map[string]string{}
	if p.Wave != "" {
		labels[api.LabelWave] = p.Wave
	}
	want, err := selection.RequestOf(p.Annotations, labels, c.Snapshot.Namespace)
	frozen, unclear := selection.Suspended(p.Annotations)
	switch {
	case p.Problem != "":
		r.rejection, r.before = redact.CleanMessage(p.Problem), true
	case err != nil || unclear != nil:
		r.rejection, r.before = redact.CleanMessage(errors.Join(err, unclear).Error()), true
	case want.Namespace != c.Snapshot.Namespace:
		r.unchanged = fmt.Sprintf("uses a profile of namespace %s", redact.PrintableLine(want.Namespace))
	case frozen:
		r.unchanged = "suspended by annotation " + api.AnnotationSuspend
	default:
		was, is = before.resolveRequest(want, &c.Snapshot), after.resolveRequest(want, &c.Snapshot)
		r.decideWithoutRendering(want, p.Current, was, is)
		r.unchanged = redact.PrintableLine(r.unchanged) // it can quote any request of a pool
	}
	if r.isDecided() {
		return r, was, is
	}
	r.profile, r.to = want.Name, is.version.Version
	if was.from != nil {
		r.from = was.version.Version
	}
	r.affected = Affected{Name: r.pool, Replaced: p.replacesMachines(), Windows: c.Snapshot.windowsOf(p, want.Name), Provider: redact.PrintableLine(string(p.Inputs.CloudProvider))}
	if now := p.Current; now != nil && (now.Profile != want.Name || now.Version != r.from) {
		r.affected.Has = redact.PrintableLine(now.Profile + " " + now.Version)
	}
	if want.Pin == nil && c.Snapshot.hasWaves(want.Name) {
		r.affected.Wave = &want.Wave
	}
	return r, was, is
}

// isDecided reports whether rendering is unnecessary.
func (r *result) isDecided() bool { return r.rejection != "" || r.unchanged != "" }

// decideWithoutRendering sets the result of the cases that need no rendering. Now is the pool's
// current generation, if known.
func (r *result) decideWithoutRendering(want selection.Request, now *ProfileVersion, was, is choice) {
	name := redact.PrintableLine(want.Name)
	has := was.from != nil && (now == nil || want.IsSatisfiedBy(now.Profile, now.Version))
	switch {
	case is.rejection != "":
		r.rejection, r.before = redact.CleanMessage(is.rejection), was.rejection == is.rejection
	case is.removed && has && was.removed:
		r.unchanged = fmt.Sprintf("profile %s was removed before: pools that have it retain it", name)
	case is.removed && has:
		r.unchanged = fmt.Sprintf("profile %s is removed, and the pool retains %s; new pools are rejected", name, was.version.Version)
	case is.removed:
		r.rejection, r.before = removed(name), was.removed
	case is.from == nil:
		r.unchanged = is.undecided
	case was.same(is) && want.Pin != nil:
		r.unchanged = fmt.Sprintf("annotation %s requests %s: it retains %s %s", api.AnnotationVersionPin, want.Pin, name, is.version.Version)
	case was.same(is):
		r.unchanged = fmt.Sprintf("%s %s does not change", name, is.version.Version)
	}
}

func removed(profile string) string {
	return fmt.Sprintf("profile %s was removed: choose another in annotation %s, or restore its file", profile, api.AnnotationOSP)
}

func noSettings(p Pool) error {
	return fmt.Errorf("pool %s: the snapshot has no settings %q: write it again", p.Name(), p.Settings)
}

// compareRenderings compares two versions for a pool.
func (c Comparison) compareRenderings(ctx context.Context, p Pool, was, is choice, r *result) error {
	settings, ok := c.Snapshot.Settings[p.Settings]
	if !ok {
		return noSettings(p)
	}
	after, err := is.readProfile(ctx)
	if err != nil {
		return err
	}
	in := inputWithPlaceholders(p, settings, after)
	in.Profile.Provenance = is.provenanceAfterMerge(after.Provenance)
	before, oldErr := c.baseInput(ctx, p, was)
	var old *rendered
	if before != nil {
		old, oldErr = c.renderInput(*before)
	}
	if old == nil {
		r.from = "" // an error at base does not prevent reporting head
	}
	got, err := c.renderInput(in)
	if err != nil {
		in.Profile.Provenance = after.Provenance // the message names the version
		if _, named := c.renderInput(in); named != nil {
			err = named
		}
		r.rejection, r.before = redact.CleanMessage(errorWithoutPoolName(err)), oldErr != nil
		return nil
	}
	r.affected.UserData = got.size
	if old != nil {
		r.affected.UserData.Before = old.size.After
		// Version and path differ in any case. Files that differ only in these are omitted; the
		// others are shown with every difference between what nodes have and get.
		before.Profile.Provenance = in.Profile.Provenance
		alike, err := c.renderInput(*before)
		if err != nil { // it depends on the version
			alike = old
		}
		r.files = old.Compare(got.Rendering, redact.Mask)
		other := alike.Compare(got.Rendering, nil)
		r.files = slices.DeleteFunc(r.files, func(f FileDiff) bool {
			return !slices.ContainsFunc(other, func(o FileDiff) bool { return o.Stage == f.Stage && o.Path == f.Path })
		})
	}
	r.fold = resultGroupKey(p, r)
	return nil
}

// baseInput returns the input that renders the pool's configuration at base, nil for none, or
// the reason why that is impossible.
func (c Comparison) baseInput(ctx context.Context, p Pool, was choice) (*render.Input, error) {
	if was.from == nil {
		return nil, nil
	}
	prof, err := was.readProfile(ctx)
	if err != nil {
		return nil, err
	}
	in := inputWithPlaceholders(p, c.Snapshot.Settings[p.Settings], prof)
	in.Profile.Provenance = was.provenanceAfterMerge(prof.Provenance)
	return &in, nil
}

// placeholder replaces commits that are unknown before the merge. It has the form of a
// commit, so that templates that shorten it render.
const placeholder = "e4b1c09d7f26a85301be94d7c62f80a15d3e7b94"

// Replacements for a commit, for the repository address of the controller, and for the
// digest of the configuration.
const (
	PlaceholderCommit     = "{commit}"
	placeholderRepository = "{repository}"
	placeholderDigest     = "{config-digest}"
)

// placeholderReplacer returns a replacer for each form of a placeholder: complete and abbreviated.
func placeholderReplacer(inputDigest string) *strings.Replacer {
	const usual, short = 12, 7
	return strings.NewReplacer(render.ShortDigest(inputDigest), placeholderDigest,
		placeholder, PlaceholderCommit, placeholder[:usual], PlaceholderCommit, placeholder[:short], PlaceholderCommit)
}

// provenanceAfterMerge returns the provenance that nodes get after the merge: an edited file has its
// written version and a commit.
func (c choice) provenanceAfterMerge(p render.Provenance) render.Provenance {
	p.Version = version.TrimDirtySuffix(p.Version)
	if !c.builtin {
		p.Commit = placeholder
		p.Change = placeholder
		p.Repository = placeholderRepository
	}
	return p
}

// rendered is a rendering with its size.
type rendered struct {
	*Rendering
	size UserData
}

// nodeTokenBytes is the length of the token in the documents, with a margin: a token of the
// API server's TokenRequest, signed with RSA-2048.
const nodeTokenBytes = 1100

// PlaceholderNodeToken returns a placeholder with the length of a node token. It grants nothing.
func PlaceholderNodeToken() string { return fillerText(nodeTokenBytes) }

// inputWithPlaceholders returns the input for a pool, with placeholders of the right length for
// tokens.
func inputWithPlaceholders(p Pool, settings Settings, prof render.Profile) render.Input {
	return render.Input{
		Profile: prof, Pool: p.Inputs, Settings: settings.Settings,
		Cluster: render.Cluster{
			Server: settings.Cluster.Server, APIServerToken: PlaceholderNodeToken(), BootstrapToken: "000000.0000000000000000",
			BootstrapKubeconfigSecretName: p.SecretName,
		},
	}
}

func (c Comparison) renderInput(in render.Input) (*rendered, error) {
	out, err := c.Engine.Render(in)
	if err != nil {
		return nil, err
	}
	in, _ = in.ReplaceSecrets()
	files, err := renderStages(c.Engine, in, out, placeholderReplacer(out.Record.Digests.Input))
	if err != nil {
		return nil, err
	}
	return &rendered{files, UserData{
		After: len(out.Bootstrap), Counted: in.Pool.UserDataSize(out.Bootstrap), Limit: in.Pool.UserDataLimit(),
	}}, nil
}

// resultGroupKey returns a key that is equal for pools with the same difference, apart from their
// names.
func resultGroupKey(p Pool, r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", r.profile, r.from, r.to)
	names := strings.NewReplacer(p.Inputs.Name+"-"+p.Inputs.Namespace, "{pool}")
	for _, f := range r.files {
		fmt.Fprintf(&b, " %q %q %q %q %q %q %q", f.Stage, f.Path, f.Change, f.OldMode, f.NewMode, f.Mode, names.Replace(f.Diff))
	}
	return b.String()
}

// groupResults groups equal results.
func (r *Report) groupResults(results []result) {
	changes := map[string]*Change{}
	refusals := map[string]*PoolRejection{}
	unchanged := map[string]*Unchanged{}
	for _, x := range results {
		switch {
		case x.rejection != "":
			f := getOrInsert(refusals, fmt.Sprint(x.before, x.rejection), PoolRejection{Reason: x.rejection, Before: x.before})
			f.Pools = append(f.Pools, x.pool)
		case x.unchanged != "":
			u := getOrInsert(unchanged, x.unchanged, Unchanged{Reason: x.unchanged})
			u.Pools = append(u.Pools, x.pool)
		default:
			c := getOrInsert(changes, x.fold, Change{Profile: x.profile, From: x.from, To: x.to, Files: slices.Concat([]FileDiff{}, x.files)})
			c.Pools = append(c.Pools, x.affected)
		}
	}
	r.Changes = valuesOf(changes)
	r.Rejections = valuesOf(refusals)
	r.Unchanged = valuesOf(unchanged)
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(len(b.Pools), len(a.Pools)), cmp.Compare(a.Pools[0].Name, b.Pools[0].Name))
	})
	for _, c := range r.Changes { // earlier waves first
		slices.SortStableFunc(c.Pools, func(a, b Affected) int { return cmp.Compare(waveOf(a), waveOf(b)) })
	}
	slices.SortFunc(r.Rejections, func(a, b PoolRejection) int { return cmp.Compare(a.Pools[0], b.Pools[0]) })
	slices.SortFunc(r.Unchanged, func(a, b Unchanged) int {
		return cmp.Or(cmp.Compare(len(b.Pools), len(a.Pools)), cmp.Compare(a.Reason, b.Reason))
	})
}

func waveOf(a Affected) int32 {
	if a.Wave == nil {
		return 0
	}
	return *a.Wave
}

func getOrInsert[T any](in map[string]*T, key string, fresh T) *T {
	if in[key] == nil {
		in[key] = &fresh
	}
	return in[key]
}

func valuesOf[T any](in map[string]*T) []T {
	out := []T{}
	for _, v := range in {
		out = append(out, *v)
	}
	return out
}
