package source

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

const (
	// maxComparedEntries bounds the comparison of two whole trees, of which only the
	// folders that differ are opened.
	maxComparedEntries = 1_000_000
	// maxComparedDepth is deeper than any path of at most 4096 bytes people make.
	maxComparedDepth = 256
	// maxNamedCommits is how many commits an error names.
	maxNamedCommits = 10
)

// Reasons of an UnverifiedError beside those of package signature.
const (
	// NotAllowed: the signature is good, and its signer may not change what changed.
	NotAllowed signature.Reason = "NotAllowed"
	// RangeUnknown: the commit that was accepted last is not there any more, so what
	// is new cannot be told.
	RangeUnknown signature.Reason = "RangeUnknown"
)

// Demand says what has to be signed before a snapshot may be used.
type Demand struct {
	Keys *signature.Keys
	// Head demands it of the commit, Tag of the annotated tag.
	Head, Tag bool
	// Range demands it of every commit of the first-parent line since Since.
	Range bool
	// Paths says who may change what. A path that several globs match needs all of
	// them to agree.
	Paths []PathDemand
	// Since is the last commit that was accepted; "" before the first.
	Since Commit
	// Now is the present.
	Now time.Time
}

// PathDemand allows changes of the paths that match a glob to some principals.
type PathDemand struct {
	// Glob is relative to the root of the repository, with slashes. ** stands for any
	// number of folders, * and ? stop at a slash; [a-z] and {a,b} are known.
	Glob       string
	Principals []string
}

// Check refuses a glob that cannot be matched.
func (p PathDemand) Check() error {
	switch {
	case !doublestar.ValidatePattern(p.Glob):
		return fail(ErrInvalid, "glob %q is malformed", shorten(p.Glob))
	case strings.HasPrefix(p.Glob, "/") || strings.HasPrefix(p.Glob, "./") || strings.HasPrefix(p.Glob, "../") || path.Clean(p.Glob) != strings.TrimSuffix(p.Glob, "/"):
		return fail(ErrInvalid, "glob %q never matches: paths begin at the root of the repository without / or ./, and have neither .. nor //", shorten(p.Glob))
	case strings.HasSuffix(p.Glob, "/"):
		return fail(ErrInvalid, "glob %q never matches: write %q for all that is in the folder", shorten(p.Glob), shorten(p.Glob)+"**")
	}
	return nil
}

// Matches reports whether a path matches the glob.
func (p PathDemand) Matches(path string) bool {
	return doublestar.MatchUnvalidated(p.Glob, path)
}

// Signed is a commit or a tag with a good signature.
type Signed struct {
	// What is "commit <40 hex>" or "tag <name>".
	What string
	signature.Signature
}

// String says who signed what.
func (s Signed) String() string { return s.What + " by " + s.Signature.String() }

// UnverifiedError says why a snapshot must not be used, and what to do about it.
type UnverifiedError struct {
	Reason  signature.Reason
	message string
}

func (e *UnverifiedError) Error() string { return e.message }

// Verify checks the signatures that are demanded, and returns those of the tag and
// of the head. An *UnverifiedError means that the snapshot must not be used; any
// other error that it could not be found out.
//
// The range begins after the newest commit of the first-parent line that is in the
// history of Since: Since itself, and after a force-push the merge base. What then
// still differs between Since and Head, for instance because the line was set back,
// counts as changed by Head. Without Since there is no range, and Paths are held
// against the files as they are: the commit that last changed each of them must be
// signed by who may, with a key that was valid then.
func (s *Snapshot) Verify(ctx context.Context, d Demand) ([]Signed, error) {
	if s.objects == nil || s.Head == "" || s.Reference == "" && d.Tag {
		return nil, fail(ErrInvalid, "there is no commit or tag that could be signed")
	}
	v := verification{Demand: d, snapshot: s, objects: s.objects.reader(), head: plumbing.NewHash(string(s.Head))}
	good, err := v.all(ctx)
	var unverified *UnverifiedError
	if err != nil && !errors.As(err, &unverified) {
		err = s.objects.explain(err)
	}
	if err != nil {
		return nil, fmt.Errorf("verifying %s of %s: %w", s.Revision, s.Repository, err)
	}
	return good, nil
}

// SignatureOf says who signed a commit that was accepted long ago. The error is
// that of Keys.Verify where there is no good signature.
func (s *Snapshot) SignatureOf(ctx context.Context, c Commit, keys *signature.Keys) (Signed, error) {
	if s.objects == nil || !isObjectID(string(c)) {
		return Signed{}, fail(ErrNotFound, "there is no such commit")
	}
	v := verification{Demand: Demand{Keys: keys}, snapshot: s, objects: s.objects.reader()}
	good, _, err := v.commit(ctx, plumbing.NewHash(string(c)))
	if err != nil {
		return Signed{}, s.objects.explain(err)
	}
	return good, nil
}

// verification is one Verify under way.
type verification struct {
	Demand
	snapshot *Snapshot
	objects  *objects
	head     plumbing.Hash
	faults   []fault
	more     int
}

type fault struct {
	reason signature.Reason
	text   string
}

func (v *verification) all(ctx context.Context) ([]Signed, error) {
	var good []Signed
	if v.Tag {
		s, err := v.tag(ctx)
		if err != nil {
			return nil, err
		}
		good = append(good, s)
	}
	if v.Head {
		s, about, err := v.commit(ctx, v.head)
		if err = v.fault(err, "commit "+v.head.String()+" "+about, ": sign it with git commit -S, or push a signed commit after it"); err != nil {
			return nil, err
		}
		good = append(good, s)
	}
	if len(v.faults) == 0 && (v.Range || len(v.Paths) > 0) {
		if err := v.history(ctx); err != nil {
			return nil, err
		}
	}
	if len(v.faults) > 0 {
		return nil, v.unverified()
	}
	return good, nil
}

// fault notes what a bad signature is of, and returns any other error.
func (v *verification) fault(err error, what, remedy string) error {
	var bad *signature.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return err
	}
	switch bad.Reason {
	case signature.OfUnknownKey, signature.OfExpiredKey:
		remedy += "; or add the key to the Secret if it is to be trusted"
	}
	v.note(bad.Reason, what+": "+bad.Message+remedy)
	return nil
}

func (v *verification) note(reason signature.Reason, text string) {
	if len(v.faults) == maxNamedCommits {
		v.more++
		return
	}
	v.faults = append(v.faults, fault{reason, text})
}

func (v *verification) unverified() error {
	var texts []string
	for _, f := range v.faults {
		texts = append(texts, f.text)
	}
	if v.more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", v.more))
	}
	return &UnverifiedError{Reason: v.faults[0].reason, message: strings.Join(texts, "\n")}
}

// commit returns whose signature a commit has, and what people call the commit.
func (v *verification) commit(ctx context.Context, id plumbing.Hash) (Signed, string, error) {
	data, err := v.objects.read(ctx, plumbing.CommitObject, id, maxCommitBytes)
	if err != nil {
		return Signed{}, "", err
	}
	s, err := splitCommit(id, data)
	if err != nil {
		return Signed{}, "", &signature.Error{Reason: signature.Invalid, Message: err.Error()}
	}
	good, err := v.Keys.Verify(id.String(), s.payload, s.signature, signature.Times{Made: s.made, Now: v.Now})
	return Signed{"commit " + id.String(), good}, s.about, err
}

// tag checks the tag at Reference. Its own name must be that of the reference: else
// an old release, which was signed once, could be put under a new name.
func (v *verification) tag(ctx context.Context) (Signed, error) {
	name, isTag := strings.CutPrefix(v.snapshot.Reference, tagPrefix)
	if !isTag {
		return Signed{}, fail(ErrInvalid, "%q is no tag, so there is none that could be signed", v.snapshot.Reference)
	}
	what := fmt.Sprintf("tag %q", shorten(name))
	const remedy = ": make it anew with git tag -s, under a new name"
	if v.snapshot.tag.IsZero() {
		v.note(signature.Missing, what+": it is a lightweight tag, which nobody can sign"+remedy)
		return Signed{}, nil
	}
	data, err := v.objects.read(ctx, plumbing.TagObject, v.snapshot.tag, maxCommitBytes)
	if err != nil {
		return Signed{}, err
	}
	s, err := splitTag(v.snapshot.tag, data)
	if err != nil {
		return Signed{}, v.fault(&signature.Error{Reason: signature.Invalid, Message: err.Error()}, what, remedy)
	}
	good, err := v.Keys.Verify(v.snapshot.tag.String(), s.payload, s.signature, signature.Times{Made: s.made, Now: v.Now})
	if err == nil && s.name != name {
		v.note(signature.Invalid, fmt.Sprintf("%s: what was signed is tag %q, which somebody put under this name%s", what, brief(s.name), remedy))
	}
	return Signed{what, good}, v.fault(err, what+" "+s.about, remedy)
}

// history checks the commits since the last that was accepted.
func (v *verification) history(ctx context.Context) error {
	if v.Since == "" {
		return v.present(ctx)
	}
	if v.Since == v.snapshot.Head {
		return nil
	}
	old := plumbing.NewHash(string(v.Since))
	if !v.objects.has(old) {
		v.note(RangeUnknown, fmt.Sprintf("commit %s, which was applied last, is neither in this history nor in the mirror any more, so what is new since then cannot be told", v.Since))
		return nil
	}
	line, err := v.objects.since(ctx, v.head, old)
	if err != nil {
		return err
	}
	touched := map[string]bool{}
	for _, id := range line {
		if err := v.newCommit(ctx, id, touched); err != nil {
			return err
		}
	}
	if len(v.Paths) == 0 {
		return nil
	}
	before, err := v.objects.commit(ctx, old)
	if err != nil {
		return err
	}
	after, err := v.objects.commit(ctx, v.head)
	if err != nil {
		return err
	}
	changed, err := v.objects.changedPaths(ctx, before.tree, after.tree)
	if err != nil {
		return err
	}
	changed = slices.DeleteFunc(changed, func(p string) bool { return touched[p] })
	return v.allowed(ctx, v.head, changed, fmt.Sprintf("changes %%q (set back from commit %s)", v.Since))
}

// newCommit checks one commit of the range, and notes which paths it changed.
func (v *verification) newCommit(ctx context.Context, id plumbing.Hash, touched map[string]bool) error {
	if v.Range {
		had := len(v.faults) + v.more
		_, about, err := v.commit(ctx, id)
		if err = v.fault(err, "commit "+id.String()+" "+about, rangeRemedy); err != nil || len(v.faults)+v.more > had {
			return err
		}
	}
	if len(v.Paths) == 0 {
		return nil
	}
	c, err := v.objects.commit(ctx, id)
	if err != nil {
		return err
	}
	var parent plumbing.Hash
	if len(c.parents) > 0 {
		before, err := v.objects.commit(ctx, c.parents[0])
		if err != nil {
			return err
		}
		parent = before.tree
	}
	changed, err := v.objects.changedPaths(ctx, parent, c.tree)
	if err != nil {
		return err
	}
	for _, p := range changed {
		touched[p] = true
	}
	return v.allowed(ctx, id, changed, "changes %q")
}

const (
	// rangeRemedy is what helps against a bad commit that others follow: it stays part
	// of what is new, also when it is reverted.
	rangeRemedy = ": push a history without it, reverting it does not help"
	// presentRemedy is what helps where no range is known.
	presentRemedy = ": let who may change it commit it anew, for instance with another version"
)

// allowed checks that a commit may change some paths. How is a format for the first
// of them.
func (v *verification) allowed(ctx context.Context, id plumbing.Hash, changed []string, how string) error {
	for _, demand := range v.Paths {
		i := slices.IndexFunc(changed, demand.Matches)
		if i < 0 {
			continue
		}
		good, about, err := v.commit(ctx, id)
		remedy := rangeRemedy
		if v.Now.IsZero() {
			remedy = presentRemedy
		}
		what := fmt.Sprintf("commit %s %s "+how, id, about, brief(changed[i]))
		if err == nil && !good.By(demand.Principals) {
			v.note(NotAllowed, fmt.Sprintf("%s and is signed by %s, but what matches %q may be changed by %s only%s",
				what, good.Signature, demand.Glob, strings.Join(demand.Principals, ", "), remedy))
		}
		if err = v.fault(err, what, remedy); err != nil {
			return err
		}
	}
	return nil
}

// present checks the files as they are, when nothing is known of what was before.
func (v *verification) present(ctx context.Context) error {
	last := map[string]Commit{}
	for _, step := range v.snapshot.Line {
		for _, c := range step.Changes {
			last[c.Path] = step.Commit
		}
	}
	files := map[Commit][]string{}
	var order []Commit
	for _, f := range v.snapshot.Files {
		c, ok := last[f.Path]
		if !ok {
			return fail(ErrInvalid, "no commit of the first-parent line made %q what it is", f.Path)
		}
		if files[c] == nil {
			order = append(order, c)
		}
		files[c] = append(files[c], f.Path)
	}
	old := *v
	old.Now = time.Time{}
	for _, c := range order {
		if err := old.allowed(ctx, plumbing.NewHash(string(c)), files[c], "was the last to change %q"); err != nil {
			return err
		}
	}
	v.faults, v.more = old.faults, old.more
	return nil
}
