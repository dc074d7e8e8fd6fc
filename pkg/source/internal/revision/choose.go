package revision

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/agext/levenshtein"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/mirror"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

const (
	// nearest is the number of similar names that an error about a missing name lists.
	nearest = 5
	// maxNamedBranches is the number of names up to which such an error lists all.
	maxNamedBranches = 8
	// maxCompared is the number of names up to which similar ones are searched for.
	maxCompared = 5000
)

// Selector selects a commit of a repository on a server. At most one field is set; without
// any, the branch main is selected. Package source documents the fields at Remote.
type Selector struct {
	Branch   string
	Tag      string
	SemVer   string
	Name     string
	Commit   history.Commit
	Revision string
}

// String describes the selection for messages.
func (s Selector) String() string {
	switch {
	case s.Revision != "":
		return "revision " + fault.EscapeUnprintable(fault.Shorten(s.Revision))
	case s.Commit != "":
		return "commit " + fault.Shorten(string(s.Commit))
	case s.Tag != "":
		return "tag " + fault.EscapeUnprintable(fault.Shorten(s.Tag))
	case s.SemVer != "":
		return "tags in range " + fault.EscapeUnprintable(fault.Shorten(s.SemVer))
	case s.Name != "":
		return "reference " + fault.EscapeUnprintable(fault.Shorten(s.Name))
	case s.Branch != "":
		return "branch " + fault.EscapeUnprintable(fault.Shorten(s.Branch))
	}
	return "branch main"
}

// Wanted is a valid Selector.
type Wanted struct {
	Selector
	spec Spec                // of Revision
	tags *semver.Constraints // of SemVer
}

// Check rejects a selector with invalid values, or with more than one.
func (s Selector) Check() (Wanted, error) {
	selectors := 0
	for _, text := range []string{s.Branch, s.Tag, s.SemVer, s.Name, string(s.Commit)} {
		if text != "" {
			selectors++
		}
	}
	switch {
	case s.Revision != "" && selectors > 0:
		return Wanted{}, fault.New(fault.ErrInvalid, "a revision is set together with a branch, a tag or a commit: set only one of them")
	case s.Revision != "":
		return s.checkRevision()
	case selectors > 1:
		return Wanted{}, fault.New(fault.ErrInvalid, "more than one of branch, tag, range of tags, name and commit are set: set only one of them")
	case selectors == 0:
		s.Branch = "main"
	case s.Commit != "":
		_, err := history.ParseCommit(string(s.Commit))
		return Wanted{Selector: s}, err
	case s.SemVer != "":
		tags, err := semver.NewConstraint(s.SemVer)
		if err != nil {
			return Wanted{}, fault.New(fault.ErrInvalid, "invalid range of tags %q: write it as 1.x, ~1.2 or \">=1.2.0 <2.0.0\"", fault.Shorten(s.SemVer))
		}
		return Wanted{Selector: s, tags: tags}, nil
	}
	for kind, name := range map[string]string{"branch": s.Branch, "tag": s.Tag, "reference": s.Name} {
		if name != "" && !ValidRefName(s.reference()) {
			return Wanted{}, fault.New(fault.ErrInvalid, "%s %q is not a name that Git allows", kind, fault.Shorten(name))
		}
	}
	return Wanted{Selector: s}, nil
}

func (s Selector) checkRevision() (Wanted, error) {
	spec, err := Parse(s.Revision)
	if err != nil {
		return Wanted{}, err
	}
	if id := strings.ToLower(spec.base); objectid.IsValid(id) {
		s.Commit = history.Commit(id) // requested from a server like Selector.Commit
	}
	return Wanted{Selector: s, spec: spec}, nil
}

// reference returns the full name of the selected reference, "" if a commit is selected, or
// a range or revision whose reference only the server knows.
func (s Selector) reference() string {
	switch {
	case s.Branch != "":
		return BranchPrefix + s.Branch
	case s.Tag != "":
		return tagPrefix + s.Tag
	}
	return s.Name
}

// HistoryCacheKey returns the key for the cached histories of one mirror.
func (t Wanted) HistoryCacheKey() string {
	if t.SemVer != "" {
		return "tags " + t.SemVer // one key for all tags: a release usually continues the previous one
	}
	return t.reference()
}

// Choice is the result of a selection on a server.
type Choice struct {
	Head      plumbing.Hash   // the commit
	Wants     []plumbing.Hash // the objects to request
	Reference string          // the full name of the reference; "" for a commit
	Tag       plumbing.Hash   // the annotated tag, or zero
	name      string          // the name in a revision
}

// Revision returns the choice in the form of Format.
func (c Choice) Revision() string { return Format(c.name, c.Head) }

// Choose finds the selected commit, and the objects to request from the server to get it.
func (t Wanted) Choose(refs *packp.AdvRefs) (Choice, error) {
	switch {
	case t.Revision != "" && t.Commit == "":
		return chooseRevision(t.spec, refs)
	case t.Commit != "":
		return chooseCommit(plumbing.NewHash(string(t.Commit)), refs)
	case t.SemVer != "":
		tag, err := t.highest(refs)
		if err != nil {
			return Choice{}, err
		}
		return chooseReference(tagPrefix+tag, tag, refs)
	}
	return chooseReference(t.reference(), cmp.Or(t.Branch, t.Tag, t.Name), refs)
}

// chooseReference finds the commit of a reference. For an annotated tag it requests the tag
// object instead of the commit, because servers only send what they advertised, and because
// the tag can be signed.
func chooseReference(full, name string, refs *packp.AdvRefs) (Choice, error) {
	id := refs.References[full]
	if id.IsZero() {
		return Choice{}, unknownReference(full, refs)
	}
	c := Choice{Head: id, Wants: []plumbing.Hash{id}, Reference: full, name: name}
	if commit, annotated := refs.Peeled[full]; annotated && commit != id {
		c.Head, c.Tag = commit, id
	}
	return c, nil
}

// ResolveSteps applies the steps of a revision, such as ~2, to the commit that it starts from.
func (t Wanted) ResolveSteps(ctx context.Context, o *objectstore.Objects, at Choice) (Choice, error) {
	if t.Revision == "" {
		return at, nil
	}
	var err error
	at.Head, err = t.spec.applySteps(ctx, o, at.Head)
	return at, err
}

// CheckTagCommit rejects a tag whose object names another commit than the server did.
func (c Choice) CheckTagCommit(ctx context.Context, o *objectstore.Objects) error {
	if c.Tag.IsZero() {
		return nil
	}
	head, err := o.Peel(ctx, c.Tag)
	if err == nil && head != c.Head {
		err = fault.New(fault.ErrInvalid, "the server says that %q is commit %s, but its tag object names %s: check the repository with git fsck", c.name, c.Head, head)
	}
	return err
}

func chooseCommit(head plumbing.Hash, refs *packp.AdvRefs) (Choice, error) {
	c := Choice{Head: head, Wants: []plumbing.Hash{head}}
	for _, id := range refs.References {
		if id == head {
			return c, nil
		}
	}
	if refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) || refs.Capabilities.Supports("allow-any-sha1-in-want") {
		return c, nil
	}
	// The server sends advertised commits only: fetch all branches, and search them.
	c.Wants = Heads(refs)
	if len(c.Wants) > mirror.MaxWants {
		return c, fault.New(fault.ErrInvalid, "the commit is not the head of a branch, and %d branches are too many to search for it: follow a branch instead", len(c.Wants))
	}
	if len(c.Wants) == 0 {
		return c, fault.New(fault.ErrNotFound, "the repository has no branches")
	}
	return c, nil
}

// version is a tag that is a semantic version: three numbers, with or without a leading v. A
// tag such as v1, which is moved with each release, is not a version.
type version struct {
	tag    string
	number *semver.Version
}

// highest finds the highest tag in a range. Pre-releases count only if the range names one.
// If several tags have the same precedence, such as v1.0.0 and 1.0.0 or versions that differ
// in build metadata, it returns the one whose name sorts last by bytes.
func (t Wanted) highest(refs *packp.AdvRefs) (string, error) {
	var all []version
	var best *version
	for name, id := range refs.References {
		tag, ok := strings.CutPrefix(name, tagPrefix)
		if !ok || id.IsZero() {
			continue
		}
		number, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
		if err != nil {
			continue
		}
		v := version{tag, number}
		all = append(all, v)
		if t.tags.Check(number) && (best == nil || compareVersions(v, *best) > 0) {
			best = &v
		}
	}
	if best != nil {
		return best.tag, nil
	}
	if len(all) == 0 {
		return "", fault.New(fault.ErrNotFound, "the repository has no tag that is a version such as v1.2.3%s", listOtherReferences(tagPrefix, "", refs))
	}
	slices.SortFunc(all, func(a, b version) int { return compareVersions(b, a) })
	var names []string
	for _, v := range all[:min(len(all), nearest)] {
		names = append(names, fmt.Sprintf("%q", fault.Shorten(v.tag)))
	}
	return "", fault.New(fault.ErrNotFound, "no tag is in the range; the highest of %d tags that are versions are %s; a pre-release counts only if the range names one, as in \">=1.2.0-0\"", len(all), strings.Join(names, ", "))
}

func compareVersions(a, b version) int {
	return cmp.Or(a.number.Compare(b.number), strings.Compare(a.tag, b.tag))
}

// unknownReference is the error for a missing reference. It lists existing ones.
func unknownReference(full string, refs *packp.AdvRefs) error {
	for prefix, kind := range map[string]string{BranchPrefix: "branch", tagPrefix: "tag"} {
		if short, ok := strings.CutPrefix(full, prefix); ok {
			return fault.New(fault.ErrNotFound, "the repository has no such %s%s", kind, listOtherReferences(prefix, short, refs))
		}
	}
	return fault.New(fault.ErrNotFound, "the repository has no such reference%s", listOtherReferences("refs/", strings.TrimPrefix(full, "refs/"), refs))
}

// listOtherReferences lists the references below a prefix for messages: all, or those most similar to a
// name.
func listOtherReferences(prefix, name string, refs *packp.AdvRefs) string {
	var names []string
	for full := range refs.References {
		if short, ok := strings.CutPrefix(full, prefix); ok {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	of := "; it has "
	switch {
	case len(names) == 0:
		return "; it has none"
	case len(names) > maxCompared:
		return fmt.Sprintf("; it has %d others", len(names))
	case len(names) > maxNamedBranches:
		of = fmt.Sprintf("; the nearest of %d others are ", len(names))
		names = mostLike(name, names)
	}
	for i, short := range names {
		if prefix == "refs/" {
			short = prefix + short
		}
		names[i] = fmt.Sprintf("%q", fault.Shorten(short))
	}
	return of + strings.Join(names, ", ")
}

// mostLike returns the names most similar to a name, the nearest first.
func mostLike(name string, names []string) []string {
	const longest = 200 // bytes: the time to compare grows with the square of the length
	distance := make(map[string]int, len(names))
	for _, n := range names {
		distance[n] = levenshtein.Distance(name[:min(len(name), longest)], n[:min(len(n), longest)], nil)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return names[:min(len(names), nearest)]
}

// Heads returns the sorted commits at the heads of all branches, without duplicates.
func Heads(refs *packp.AdvRefs) []plumbing.Hash {
	var ids []plumbing.Hash
	for name, id := range refs.References {
		if strings.HasPrefix(name, BranchPrefix) && !id.IsZero() {
			ids = append(ids, id)
		}
	}
	plumbing.HashesSort(ids)
	return slices.Compact(ids)
}

// chooseRevision finds the commit that a revision starts from. For an annotated tag it
// requests the tag object, because servers only send what they advertised.
func chooseRevision(spec Spec, refs *packp.AdvRefs) (Choice, error) {
	known := refs.References
	if refs.Head != nil {
		known = maps.Clone(known)
		known["HEAD"] = *refs.Head
	}
	for _, name := range spec.candidateNames() {
		id := known[name]
		if id.IsZero() {
			continue
		}
		head := id
		if commit, ok := refs.Peeled[name]; ok {
			head = commit
		}
		return Choice{Head: head, Wants: []plumbing.Hash{id}}, nil
	}
	if spec.abbreviatedID() != "" {
		return Choice{}, fault.New(fault.ErrNotFound, "the repository has no branch or tag %q; if it is a commit, write all 40 digits: servers do not accept abbreviated ids", spec.base)
	}
	return Choice{}, spec.unknownBaseError(known)
}
