package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/agext/levenshtein"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

const (
	branchPrefix = "refs/heads/"
	// nearest is how many names an error about a missing one proposes.
	nearest = 5
	// maxCompared is how many names are compared for that.
	maxCompared = 5000
)

// references is the number of ways in which a remote says what to follow.
func (r Remote) references() int {
	n := 0
	for _, s := range []string{r.Branch, r.Tag, r.SemVer, r.Name, string(r.Commit)} {
		if s != "" {
			n++
		}
	}
	return n
}

// checkReference refuses what cannot be followed, and fills in the default.
func (r Remote) checkReference() (Remote, *semver.Constraints, error) {
	switch {
	case r.references() > 1:
		return r, nil, fault.New(fault.ErrInvalid, "more than one of branch, tag, range of tags, name and commit are given; choose one")
	case r.references() == 0:
		r.Branch = "main"
	case r.Commit != "":
		_, err := ParseCommit(string(r.Commit))
		return r, nil, err
	case r.SemVer != "":
		tags, err := semver.NewConstraint(r.SemVer)
		if err != nil {
			return r, nil, fault.New(fault.ErrInvalid, "range of tags %q cannot be read: write it as 1.x, ~1.2 or \">=1.2.0 <2.0.0\"", fault.Shorten(r.SemVer))
		}
		return r, tags, nil
	}
	for kind, name := range map[string]string{"branch": r.Branch, "tag": r.Tag, "reference": r.Name} {
		if name != "" && !validRef(r.reference()) {
			return r, nil, fault.New(fault.ErrInvalid, "%s %q is no name that Git allows", kind, fault.Shorten(name))
		}
	}
	return r, nil, nil
}

// reference is the full name of the one reference that is followed, "" if it is
// none, or not known before the server was asked.
func (r Remote) reference() string {
	switch {
	case r.Branch != "":
		return branchPrefix + r.Branch
	case r.Tag != "":
		return tagPrefix + r.Tag
	}
	return r.Name
}

// lineName tells the histories of one mirror apart.
func (t target) lineName() string {
	if t.SemVer != "" {
		return "tags " + t.SemVer // the next release mostly continues the one before
	}
	return t.reference()
}

// choice is what a target means on a server.
type choice struct {
	head      plumbing.Hash   // the commit
	wants     []plumbing.Hash // to ask for
	reference string          // the full name that led there; "" for a commit
	name      string          // as it stands in a revision
	tag       plumbing.Hash   // the annotated tag there, or zero
}

func (c choice) revision() string { return revision(c.name, c.head) }

// choose finds the commit a target means and what to ask for to get it.
func choose(t target, refs *packp.AdvRefs) (choice, error) {
	switch {
	case t.Revision != "" && t.Commit == "":
		return chooseRevision(t.spec, refs)
	case t.Commit != "":
		return chooseCommit(plumbing.NewHash(string(t.Commit)), refs)
	case t.SemVer != "":
		tag, err := highest(t, refs)
		if err != nil {
			return choice{}, err
		}
		return chooseReference(tagPrefix+tag, tag, refs)
	}
	return chooseReference(t.reference(), cmp.Or(t.Branch, t.Tag, t.Name), refs)
}

// chooseReference finds the commit of a reference. A tag is asked for as the tag,
// because a server gives out what it named, and because it may be signed.
func chooseReference(full, name string, refs *packp.AdvRefs) (choice, error) {
	id := refs.References[full]
	if id.IsZero() {
		return choice{}, unknownReference(full, refs)
	}
	c := choice{head: id, wants: []plumbing.Hash{id}, reference: full, name: name}
	if commit, annotated := refs.Peeled[full]; annotated && commit != id {
		c.head, c.tag = commit, id
	}
	return c, nil
}

// checkTag refuses a tag that leads elsewhere than the server said.
func (c choice) checkTag(ctx context.Context, o *objectstore.Objects) error {
	if c.tag.IsZero() {
		return nil
	}
	head, err := o.Peel(ctx, c.tag)
	if err == nil && head != c.head {
		err = fault.New(fault.ErrInvalid, "the server says that %q is commit %s, but its tag object names %s: check the repository with git fsck", c.name, c.head, head)
	}
	return err
}

func chooseCommit(head plumbing.Hash, refs *packp.AdvRefs) (choice, error) {
	c := choice{head: head, wants: []plumbing.Hash{head}}
	for _, id := range refs.References {
		if id == head {
			return c, nil
		}
	}
	if refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) || refs.Capabilities.Supports("allow-any-sha1-in-want") {
		return c, nil
	}
	// The server gives out branches only; the commit should be on one of them.
	c.wants = heads(refs)
	if len(c.wants) > objectstore.MaxWants {
		return c, fault.New(fault.ErrInvalid, "the commit is no branch's head, and there are %d branches to look for it; follow a branch instead", len(c.wants))
	}
	if len(c.wants) == 0 {
		return c, fault.New(fault.ErrNotFound, "the repository has no branches")
	}
	return c, nil
}

// version is a tag that is a semantic version: three numbers, with v before them or
// not. A tag such as v1, which is moved with each release, is none.
type version struct {
	tag    string
	number *semver.Version
}

// highest finds the highest tag in a range. Pre-releases count only where the range
// names one. Of tags with one precedence, such as v1.0.0 and 1.0.0 or with other
// build metadata, the one whose name sorts last in bytes is taken.
func highest(t target, refs *packp.AdvRefs) (string, error) {
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
		return "", fault.New(fault.ErrNotFound, "the repository has no tag that is a version such as v1.2.3%s", others(tagPrefix, "", refs))
	}
	slices.SortFunc(all, func(a, b version) int { return compareVersions(b, a) })
	var names []string
	for _, v := range all[:min(len(all), nearest)] {
		names = append(names, fmt.Sprintf("%q", fault.Shorten(v.tag)))
	}
	return "", fault.New(fault.ErrNotFound, "no tag is in the range; of %d that are versions the highest are %s; a pre-release counts only if the range names one, as in \">=1.2.0-0\"", len(all), strings.Join(names, ", "))
}

func compareVersions(a, b version) int {
	return cmp.Or(a.number.Compare(b.number), strings.Compare(a.tag, b.tag))
}

// unknownReference says that there is no such reference, and what there is.
func unknownReference(full string, refs *packp.AdvRefs) error {
	for prefix, kind := range map[string]string{branchPrefix: "branch", tagPrefix: "tag"} {
		if short, ok := strings.CutPrefix(full, prefix); ok {
			return fault.New(fault.ErrNotFound, "the repository has no such %s%s", kind, others(prefix, short, refs))
		}
	}
	return fault.New(fault.ErrNotFound, "the repository has no such reference%s", others("refs/", strings.TrimPrefix(full, "refs/"), refs))
}

// others names the references below a prefix: all, or those most like a name.
func others(prefix, name string, refs *packp.AdvRefs) string {
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
		return "; it has none at all"
	case len(names) > maxCompared:
		return fmt.Sprintf("; it has %d others", len(names))
	case len(names) > maxNamedBranches:
		of = fmt.Sprintf("; of %d others the nearest are ", len(names))
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

// mostLike returns the names that are most like one, the nearest first.
func mostLike(name string, names []string) []string {
	const longest = 200 // bytes: comparing takes time by the square of it
	distance := make(map[string]int, len(names))
	for _, n := range names {
		distance[n] = levenshtein.Distance(name[:min(len(name), longest)], n[:min(len(n), longest)], nil)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return names[:min(len(names), nearest)]
}

// heads are the heads of all branches, each once, in a fixed order.
func heads(refs *packp.AdvRefs) []plumbing.Hash {
	var ids []plumbing.Hash
	for name, id := range refs.References {
		if strings.HasPrefix(name, branchPrefix) && !id.IsZero() {
			ids = append(ids, id)
		}
	}
	plumbing.HashesSort(ids)
	return slices.Compact(ids)
}
