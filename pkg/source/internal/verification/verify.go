package verification

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

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

const (
	// maxClockSkew is how much older than an earlier commit of its line a commit may say
	// that it is, where its signature is good by that word alone: clocks are set to wrong
	// zones, and not to another week.
	maxClockSkew = 24 * time.Hour
	// maxAncestries bounds the walks through the whole history that one verification makes.
	maxAncestries = 1000
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
	Since history.Commit
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
		return fault.New(fault.ErrInvalid, "glob %q is malformed", fault.Shorten(p.Glob))
	case strings.HasPrefix(p.Glob, "/") || strings.HasPrefix(p.Glob, "./") || strings.HasPrefix(p.Glob, "../") || path.Clean(p.Glob) != strings.TrimSuffix(p.Glob, "/"):
		return fault.New(fault.ErrInvalid, "glob %q never matches: paths begin at the root of the repository without / or ./, and have neither .. nor //", fault.Shorten(p.Glob))
	case strings.HasSuffix(p.Glob, "/"):
		return fault.New(fault.ErrInvalid, "glob %q never matches: write %q for all that is in the folder", fault.Shorten(p.Glob), fault.Shorten(p.Glob)+"**")
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

// Subject is what is verified.
type Subject struct {
	Objects   *objectstore.Objects
	Scope     filter.Scope
	Head      plumbing.Hash
	Reference string        // the full name that led to Head; "" for a commit alone
	TagObject plumbing.Hash // the annotated tag at Reference; zero where there is none
	Cache     *Cache
}

// Verify checks the signatures that are demanded. See Snapshot.Verify of package source.
func (s Subject) Verify(ctx context.Context, d Demand) ([]Signed, error) {
	v := verification{Demand: d, Subject: s}
	return v.all(ctx)
}

// SignatureOf returns who signed a commit that was accepted long ago.
func (s Subject) SignatureOf(ctx context.Context, id plumbing.Hash, keys *signature.Keys) (Signed, error) {
	v := verification{Demand: Demand{Keys: keys}, Subject: s, old: true}
	good, _, err := v.commit(ctx, id)
	return good, err
}

// verification is one Verify under way.
type verification struct {
	Demand
	Subject
	old   bool // what is signed was made long ago
	spent int  // tree entries that were compared
	// ancestries is how often it was asked whether one commit follows another.
	ancestries int
	matters    []string // see tops
	faults     []finding
	more       int
}

type finding struct {
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
	if v.Demand.Head {
		s, about, err := v.commit(ctx, v.Subject.Head)
		if err = v.fault(err, "commit "+v.Subject.Head.String()+" "+about, ": sign it with git commit -S, or push a signed commit after it"); err != nil {
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
	v.faults = append(v.faults, finding{reason, text})
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
	data, err := v.Objects.Read(ctx, plumbing.CommitObject, id, objectstore.MaxCommitBytes)
	if err != nil {
		return Signed{}, "", err
	}
	s, err := SplitCommit(id, data)
	if err != nil {
		return Signed{}, "", &signature.Error{Reason: signature.Invalid, Message: err.Error()}
	}
	good, err := v.Keys.Verify(id.String(), s.payload, s.signature, signature.Times{Made: s.made, Now: v.Now, Old: v.old})
	if err == nil && v.old && good.Ends {
		err = v.backdated(ctx, id, good)
	}
	return Signed{"commit " + id.String(), good}, s.about, err
}

// backdated refuses a signature that is older than a commit which it follows. Whoever has
// a key that has ended can write any time into a commit.
func (v *verification) backdated(ctx context.Context, id plumbing.Hash, good signature.Signature) error {
	newest, err := v.Cache.newestBefore(ctx, v.Objects, id)
	if err != nil || newest.IsZero() {
		return err
	}
	c, err := v.Objects.Commit(ctx, newest)
	if err != nil || !c.CommittedAt.After(good.Made.Add(maxClockSkew)) {
		return err
	}
	return &signature.Error{Reason: signature.OfExpiredKey, Message: fmt.Sprintf("it is signed with %s, which has an end, and says that it was made at %s, but follows commit %s of %s",
		good.Key, good.Made.UTC().Format(time.RFC3339), newest, c.CommittedAt.UTC().Format(time.RFC3339))}
}

// tag checks the tag at Reference. Its own name must be that of the reference: else
// an old release, which was signed once, could be put under a new name.
func (v *verification) tag(ctx context.Context) (Signed, error) {
	name, isTag := strings.CutPrefix(v.Reference, "refs/tags/")
	if !isTag {
		return Signed{}, fault.New(fault.ErrInvalid, "%q is no tag, so there is none that could be signed", v.Reference)
	}
	what := fmt.Sprintf("tag %q", fault.Shorten(name))
	const remedy = ": make it anew with git tag -s, under a new name"
	if v.TagObject.IsZero() {
		v.note(signature.Missing, what+": it is a lightweight tag, which nobody can sign"+remedy)
		return Signed{}, nil
	}
	data, err := v.Objects.Read(ctx, plumbing.TagObject, v.TagObject, objectstore.MaxCommitBytes)
	if err != nil {
		return Signed{}, err
	}
	s, err := splitTag(v.TagObject, data)
	if err != nil {
		return Signed{}, v.fault(&signature.Error{Reason: signature.Invalid, Message: err.Error()}, what, remedy)
	}
	good, err := v.Keys.Verify(v.TagObject.String(), s.payload, s.signature, signature.Times{Made: s.made, Now: v.Now})
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
	if string(v.Since) == v.Subject.Head.String() {
		return nil
	}
	old := plumbing.NewHash(string(v.Since))
	if !v.Objects.Has(old) {
		v.note(RangeUnknown, fmt.Sprintf("commit %s, which was applied last, is neither in this history nor in the mirror any more, so what is new since then cannot be told", v.Since))
		return nil
	}
	line, continues, err := history.Since(ctx, v.Objects, v.Subject.Head, old)
	if err != nil {
		return err
	}
	for _, id := range line {
		if err := v.newCommit(ctx, id); err != nil {
			return err
		}
	}
	if continues || len(v.Paths) == 0 {
		return nil
	}
	// What the commits of the line changed says nothing of what differs: they change
	// another commit than Since.
	before, err := v.Objects.Commit(ctx, old)
	if err != nil {
		return err
	}
	after, err := v.Objects.Commit(ctx, v.Subject.Head)
	if err != nil {
		return err
	}
	changed, err := v.changed(ctx, before.Tree, after.Tree)
	if err != nil {
		return err
	}
	return v.allowed(ctx, v.Subject.Head, changed, claim{fmt.Sprintf("changes %%q (set back from commit %s)", v.Since), rewriteRemedy})
}

// newCommit checks one commit of the range.
func (v *verification) newCommit(ctx context.Context, id plumbing.Hash) error {
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
	c, err := v.Objects.Commit(ctx, id)
	if err != nil {
		return err
	}
	var parent plumbing.Hash
	if len(c.Parents) > 0 {
		before, err := v.Objects.Commit(ctx, c.Parents[0])
		if err != nil {
			return err
		}
		parent = before.Tree
	}
	changed, err := v.changed(ctx, parent, c.Tree)
	if err != nil {
		return err
	}
	return v.allowed(ctx, id, changed, claim{"changes %q", rangeRemedy})
}

// claim is what is said against a commit: a format for a path, and what helps.
type claim struct{ does, remedy string }

const (
	// rangeRemedy is what helps against a bad commit that others follow: it stays part
	// of what is new, also when it is reverted.
	rangeRemedy = ": push a history without it, reverting it does not help"
	// rewriteRemedy is what helps where the line goes round what was applied.
	rewriteRemedy = ": push a history that has it on its first-parent line, or let who may change all of it sign the newest commit"
	// presentRemedy is what helps where no range is known.
	presentRemedy = ": let who may change it commit it anew, for instance with another version; a file that is gone comes back and goes again"
)

// allowed checks that a commit may change some paths.
func (v *verification) allowed(ctx context.Context, id plumbing.Hash, changed []string, c claim) error {
	for _, demand := range v.Paths {
		i := slices.IndexFunc(changed, demand.Matches)
		if i < 0 {
			continue
		}
		good, about, err := v.commit(ctx, id)
		what := fmt.Sprintf("commit %s %s "+c.does, id, about, brief(changed[i]))
		if err == nil && !good.By(demand.Principals) {
			v.note(NotAllowed, fmt.Sprintf("%s and is signed by %s, but what matches %q may be changed by %s only%s",
				what, good.Signature, demand.Glob, strings.Join(demand.Principals, ", "), c.remedy))
		}
		if err = v.fault(err, what, c.remedy); err != nil {
			return err
		}
	}
	return nil
}
