package revision

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

const (
	// MaxBytes bounds the text of a revision.
	MaxBytes = 1024
	// maxRevisionSteps bounds the number in HEAD~N.
	maxRevisionSteps = history.MaxLineCommits
	// minAbbreviated is the length of the shortest commit id that Git accepts.
	minAbbreviated = 4
)

// Spec is a revision as in gitrevisions(7): a name, and steps from its commit to ancestors.
type Spec struct {
	base  string // a reference, a full or abbreviated commit id, or HEAD
	steps []step
}

// step leads to an ancestor: ^N to the nth parent, ~N to the first parent N times.
type step struct {
	nth   int // the parent to go to
	times int // the number of times
}

// Parse parses NAME, followed by any of ~, ~N, ^, ^N, ^{} and ^{commit}.
func Parse(text string) (Spec, error) {
	bad := func(why string) (Spec, error) {
		return Spec{}, fault.New(fault.ErrInvalid, "revision %q: %s; write a branch, a tag, a commit or something like HEAD~1", fault.EscapeUnprintable(fault.Shorten(text)), why)
	}
	if text == "" || len(text) > MaxBytes {
		return bad("it is empty or too long")
	}
	end := strings.IndexAny(text, "~^")
	if end < 0 {
		end = len(text)
	}
	spec := Spec{base: text[:end]}
	switch {
	case spec.base == "@":
		spec.base = "HEAD"
	case strings.Contains(spec.base, "@{") || strings.Contains(spec.base, ":") || strings.Contains(spec.base, ".."):
		return bad("reflogs, paths, searches and ranges are not supported")
	case !ValidRefName("refs/heads/" + spec.base):
		return bad("Git does not allow that name")
	}
	for rest := text[end:]; rest != ""; {
		kind := rest[0]
		rest = rest[1:]
		if kind == '^' && strings.HasPrefix(rest, "{") {
			what, after, ok := strings.Cut(rest[1:], "}")
			if !ok || what != "" && what != "commit" {
				return bad("only ^{} and ^{commit} are supported, no other ^{...}")
			}
			rest = after
			continue
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n := 1
		if digits > 0 {
			var err error
			if n, err = strconv.Atoi(rest[:digits]); err != nil || n > maxRevisionSteps {
				return bad("a number is too large")
			}
		}
		rest = rest[digits:]
		switch {
		case kind == '~':
			spec.steps = append(spec.steps, step{nth: 1, times: n})
		case kind == '^' && n > 0:
			spec.steps = append(spec.steps, step{nth: n, times: 1})
		case kind != '^':
			return bad("only ~ and ^ can follow a name")
		}
	}
	return spec, nil
}

// candidateNames returns the full names that a short name can have, in the order of Git.
func (r Spec) candidateNames() []string {
	if r.base == "HEAD" || strings.HasPrefix(r.base, "refs/") {
		return []string{r.base}
	}
	return []string{"refs/" + r.base, tagPrefix + r.base, BranchPrefix + r.base, remotePrefix + r.base, remotePrefix + r.base + "/HEAD"}
}

// findBase finds the commit of the base in references. A full commit id is returned unchanged.
// The result is zero if there is none: the base can then be an abbreviated commit id, over
// which references take precedence as in Git.
func (r Spec) findBase(refs map[string]plumbing.Hash) plumbing.Hash {
	if objectid.IsValid(strings.ToLower(r.base)) {
		return plumbing.NewHash(r.base)
	}
	for _, name := range r.candidateNames() {
		if id := refs[name]; !id.IsZero() {
			return id
		}
	}
	return plumbing.ZeroHash
}

// abbreviatedID returns the base in lower case if it can be an abbreviated commit id, else "".
func (r Spec) abbreviatedID() string {
	const digits = "0123456789abcdef"
	id := strings.ToLower(r.base)
	if len(id) < minAbbreviated || len(id) > 40 || strings.Trim(id, digits) != "" {
		return ""
	}
	return id
}

// unknownBaseError returns the error for a missing base. It lists existing names.
func (r Spec) unknownBaseError(refs map[string]plumbing.Hash) error {
	var names []string
	for name := range refs {
		for _, prefix := range []string{BranchPrefix, tagPrefix} {
			if short, ok := strings.CutPrefix(name, prefix); ok {
				names = append(names, short)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	available := "; it has no branch and no tag"
	switch {
	case len(names) > maxNamedBranches:
		available = fmt.Sprintf("; it has %d branches and tags", len(names))
	case len(names) > 0:
		for i, name := range names {
			names[i] = fmt.Sprintf("%q", fault.Shorten(name))
		}
		available = "; it has " + strings.Join(names, ", ")
	}
	if r.base == "HEAD" {
		return fault.New(fault.ErrNotFound, "its HEAD names a branch that does not exist: name a revision%s", available)
	}
	return fault.New(fault.ErrNotFound, "the repository has no branch, tag or commit %q%s", fault.EscapeUnprintable(fault.Shorten(r.base)), available)
}

// Resolve returns the commit of the revision in a repository with these references.
func (r Spec) Resolve(ctx context.Context, o *objectstore.Objects, refs map[string]plumbing.Hash) (plumbing.Hash, error) {
	base := r.findBase(refs)
	if digits := r.abbreviatedID(); base.IsZero() && digits != "" {
		var err error
		if base, err = o.ExpandCommitID(ctx, digits); err != nil {
			return base, err
		}
	}
	if base.IsZero() || !o.Has(base) {
		return base, r.unknownBaseError(refs)
	}
	return r.applySteps(ctx, o, base)
}

// applySteps applies the steps, starting at a commit or a tag of one.
func (r Spec) applySteps(ctx context.Context, o *objectstore.Objects, id plumbing.Hash) (plumbing.Hash, error) {
	id, err := o.Peel(ctx, id)
	if err != nil {
		return id, err
	}
	for _, step := range r.steps {
		for range step.times {
			c, err := o.Commit(ctx, id)
			if err != nil {
				return id, err
			}
			if len(c.Parents) < step.nth {
				return id, fault.New(fault.ErrNotFound, "commit %s has %d parents, so %q does not exist", id, len(c.Parents), r.base+"~ or ^")
			}
			id = c.Parents[step.nth-1]
		}
	}
	return id, nil
}
