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
	// maxClockSkew is the allowed time by which a commit can claim to be older than an
	// earlier commit of its history, if its signature is valid only at the claimed time:
	// clocks can have a wrong zone, but not a wrong week.
	maxClockSkew = 24 * time.Hour
	// maxAncestries limits the walks through the whole history in one verification.
	maxAncestries = 1000
	// maxNamedCommits is the number of commits that an error names.
	maxNamedCommits = 10
)

// Reasons of an UnverifiedError, in addition to those of package signature.
const (
	// NotAllowed: the signature is valid, but its signer is not allowed to make the
	// change.
	NotAllowed signature.Reason = "NotAllowed"
	// RangeUnknown: the commit that was accepted last no longer exists, so the new
	// commits are unknown.
	RangeUnknown signature.Reason = "RangeUnknown"
)

// Policy has the signatures that a snapshot needs before it can be used.
type Policy struct {
	Keys *signature.Keys
	// Head requires one of the commit, Tag one of the annotated tag.
	Head, Tag bool
	// Range requires one of every commit of the first-parent history since Since.
	Range bool
	// Paths says who can change which paths. If several globs match a path, all of them
	// must allow the change.
	Paths []PathPolicy
	// Since is the last commit that was accepted; "" before the first.
	Since history.Commit
	// Now is the present.
	Now time.Time
}

// PathPolicy allows some principals to change the paths that match a glob.
type PathPolicy struct {
	// Glob is relative to the root of the repository, with slashes. ** matches any number
	// of folders, * and ? match within a name; [a-z] and {a,b} are supported.
	Glob       string
	Principals []string
}

// CheckGlob rejects a glob that can never match.
func (p PathPolicy) CheckGlob() error {
	switch {
	case !doublestar.ValidatePattern(p.Glob):
		return fault.New(fault.ErrInvalid, "glob %q is malformed", fault.Shorten(p.Glob))
	case strings.HasPrefix(p.Glob, "/") || strings.HasPrefix(p.Glob, "./") || strings.HasPrefix(p.Glob, "../") || path.Clean(p.Glob) != strings.TrimSuffix(p.Glob, "/"):
		return fault.New(fault.ErrInvalid, "glob %q never matches: write paths from the root of the repository, without a leading / or ./, and without .. and //", fault.Shorten(p.Glob))
	case strings.HasSuffix(p.Glob, "/"):
		return fault.New(fault.ErrInvalid, "glob %q never matches: write %q for all files in the folder", fault.Shorten(p.Glob), fault.Shorten(p.Glob)+"**")
	}
	return nil
}

// Matches reports whether a path matches the glob.
func (p PathPolicy) Matches(path string) bool {
	return doublestar.MatchUnvalidated(p.Glob, path)
}

// Signed is a commit or a tag with a valid signature.
type Signed struct {
	// What is "commit <40 hex>" or "tag <name>".
	What string
	signature.Signature
}

// String returns what was signed, and by whom.
func (s Signed) String() string { return s.What + " by " + s.Signature.String() }

// UnverifiedError says why a snapshot must not be used, and what to do.
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
	Reference string        // the full name that resolved to Head; "" for a commit
	TagObject plumbing.Hash // the annotated tag at Reference; zero if there is none
	Cache     *Cache
}

// Verify checks the required signatures. See Snapshot.Verify of package source.
func (s Subject) Verify(ctx context.Context, d Policy) ([]Signed, error) {
	v := verification{Policy: d, Subject: s}
	return v.verifyAll(ctx)
}

// SignatureOf returns the signature of a commit that was accepted long ago.
func (s Subject) SignatureOf(ctx context.Context, id plumbing.Hash, keys *signature.Keys) (Signed, error) {
	v := verification{Policy: Policy{Keys: keys}, Subject: s, old: true}
	good, _, err := v.verifyCommit(ctx, id)
	return good, err
}

// verification is one run of Verify.
type verification struct {
	Policy
	Subject
	old   bool // the signed object is old
	spent int  // compared tree entries
	// ancestries is the number of ancestry checks.
	ancestries int
	matters    []string // see tops
	faults     []finding
	more       int
}

type finding struct {
	reason signature.Reason
	text   string
}

// verifyAll checks every signature that the policy requires, and returns those of the tag and of
// the head.
func (v *verification) verifyAll(ctx context.Context) ([]Signed, error) {
	var good []Signed
	if v.Tag {
		s, err := v.verifyTag(ctx)
		if err != nil {
			return nil, err
		}
		good = append(good, s)
	}
	if v.Policy.Head {
		s, about, err := v.verifyCommit(ctx, v.Subject.Head)
		if err = v.recordSignatureFault(err, "commit "+v.Subject.Head.String()+" "+about, ": sign it with git commit -S, or push a signed commit after it"); err != nil {
			return nil, err
		}
		good = append(good, s)
	}
	// A head that is not accepted decides already.
	if len(v.faults) == 0 && (v.Range || len(v.Paths) > 0) {
		if err := v.verifyRangeOrLastChanges(ctx); err != nil {
			return nil, err
		}
	}
	if len(v.faults) > 0 {
		return nil, v.newUnverifiedError()
	}
	return good, nil
}

// recordSignatureFault records an invalid signature, and returns any other error.
func (v *verification) recordSignatureFault(err error, what, remedy string) error {
	var bad *signature.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return err
	}
	switch bad.Reason {
	case signature.OfUnknownKey, signature.OfExpiredKey:
		remedy += "; or add the key to the Secret if you trust it"
	}
	v.addFinding(bad.Reason, what+": "+bad.Message+remedy)
	return nil
}

func (v *verification) addFinding(reason signature.Reason, text string) {
	if len(v.faults) == maxNamedCommits {
		v.more++
		return
	}
	v.faults = append(v.faults, finding{reason, text})
}

func (v *verification) newUnverifiedError() error {
	var texts []string
	for _, f := range v.faults {
		texts = append(texts, f.text)
	}
	if v.more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", v.more))
	}
	return &UnverifiedError{Reason: v.faults[0].reason, message: strings.Join(texts, "\n")}
}

// verifyCommit verifies the signature of a commit, and returns it with the commit's description for
// users.
func (v *verification) verifyCommit(ctx context.Context, id plumbing.Hash) (Signed, string, error) {
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
		err = v.checkNotBackdated(ctx, id, good)
	}
	return Signed{"commit " + id.String(), good}, s.about, err
}

// checkNotBackdated rejects a signature that is older than an ancestor of its commit. The owner of
// an expired key can write any time into a commit.
func (v *verification) checkNotBackdated(ctx context.Context, id plumbing.Hash, good signature.Signature) error {
	newest, err := v.Cache.newestOfFirstParents(ctx, v.Objects, id)
	if err != nil || newest.IsZero() {
		return err
	}
	c, err := v.Objects.Commit(ctx, newest)
	if err != nil || !c.CommittedAt.After(good.Made.Add(maxClockSkew)) {
		return err
	}
	return &signature.Error{Reason: signature.OfExpiredKey, Message: fmt.Sprintf("it is signed with %s, which has an expiry date, and claims to be made at %s, but follows commit %s of %s",
		good.Key, good.Made.UTC().Format(time.RFC3339), newest, c.CommittedAt.UTC().Format(time.RFC3339))}
}

// verifyTag verifies the tag at Reference. The name in the tag must match the reference; otherwise
// an old signed release could be published under a new name.
func (v *verification) verifyTag(ctx context.Context) (Signed, error) {
	name, isTag := strings.CutPrefix(v.Reference, "refs/tags/")
	if !isTag {
		return Signed{}, fault.New(fault.ErrInvalid, "%q is not a tag, so there is no tag signature to check", v.Reference)
	}
	what := fmt.Sprintf("tag %q", fault.Shorten(name))
	const remedy = ": create it again with git tag -s, under a new name"
	if v.TagObject.IsZero() {
		v.addFinding(signature.Missing, what+": it is a lightweight tag, which cannot be signed"+remedy)
		return Signed{}, nil
	}
	data, err := v.Objects.Read(ctx, plumbing.TagObject, v.TagObject, objectstore.MaxCommitBytes)
	if err != nil {
		return Signed{}, err
	}
	s, err := splitTag(v.TagObject, data)
	if err != nil {
		return Signed{}, v.recordSignatureFault(&signature.Error{Reason: signature.Invalid, Message: err.Error()}, what, remedy)
	}
	good, err := v.Keys.Verify(v.TagObject.String(), s.payload, s.signature, signature.Times{Made: s.made, Now: v.Now})
	if err == nil && s.name != name {
		v.addFinding(signature.Invalid, fmt.Sprintf("%s: the signed tag is %q, which was published under this name%s", what, shortenText(s.name), remedy))
	}
	return Signed{what, good}, v.recordSignatureFault(err, what+" "+s.about, remedy)
}

// verifyRangeOrLastChanges checks the commits since the one that was accepted last.
func (v *verification) verifyRangeOrLastChanges(ctx context.Context) error {
	if v.Since == "" {
		return v.checkLastChanges(ctx)
	}
	if string(v.Since) == v.Subject.Head.String() {
		return nil
	}
	old := plumbing.NewHash(string(v.Since))
	if !v.Objects.Has(old) {
		v.addFinding(RangeUnknown, fmt.Sprintf("commit %s, which was applied last, is neither in this history nor in the mirror, so the commits since then are unknown", v.Since))
		return nil
	}
	line, continues, err := history.FirstParentsSince(ctx, v.Objects, v.Subject.Head, old)
	if err != nil {
		return err
	}
	for _, id := range line {
		if err := v.verifyRangeCommit(ctx, id); err != nil {
			return err
		}
	}
	if continues || len(v.Paths) == 0 {
		return nil
	}
	// The changes of the first-parent commits do not say what differs: they are relative
	// to another commit than Since.
	before, err := v.Objects.Commit(ctx, old)
	if err != nil {
		return err
	}
	after, err := v.Objects.Commit(ctx, v.Subject.Head)
	if err != nil {
		return err
	}
	changed, err := v.changedPaths(ctx, before.Tree, after.Tree)
	if err != nil {
		return err
	}
	return v.checkAllowedPaths(ctx, v.Subject.Head, changed, claim{fmt.Sprintf("changes %%q (set back from commit %s)", v.Since), rewriteRemedy})
}

// verifyRangeCommit checks the signature of one commit of the range, and whether its signer can
// change the paths that it changes.
func (v *verification) verifyRangeCommit(ctx context.Context, id plumbing.Hash) error {
	if v.Range {
		had := len(v.faults) + v.more
		_, about, err := v.verifyCommit(ctx, id)
		// One problem of a commit is enough: its paths would repeat it.
		if err = v.recordSignatureFault(err, "commit "+id.String()+" "+about, rangeRemedy); err != nil || len(v.faults)+v.more > had {
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
	changed, err := v.changedPaths(ctx, parent, c.Tree)
	if err != nil {
		return err
	}
	return v.checkAllowedPaths(ctx, id, changed, claim{"changes %q", rangeRemedy})
}

// claim is an objection to a commit: a format for a path, and a remedy.
type claim struct{ does, remedy string }

const (
	// rangeRemedy applies to a commit without valid signature that others follow: it
	// remains part of the new commits, even after it is reverted.
	rangeRemedy = ": push a history without it, reverting it does not help"
	// rewriteRemedy applies if the new first-parent history does not contain the applied
	// commit.
	rewriteRemedy = ": push a first-parent history that contains it, or let a signer who can change all these paths sign the newest commit"
	// presentRemedy applies if no range is known.
	presentRemedy = ": let an allowed signer commit it again, for example with another version; restore a deleted file and delete it again"
)

// checkAllowedPaths checks that the signer of a commit can change some paths.
func (v *verification) checkAllowedPaths(ctx context.Context, id plumbing.Hash, changed []string, c claim) error {
	for _, policy := range v.Paths {
		i := slices.IndexFunc(changed, policy.Matches)
		if i < 0 {
			continue
		}
		good, about, err := v.verifyCommit(ctx, id)
		what := fmt.Sprintf("commit %s %s "+c.does, id, about, shortenText(changed[i]))
		if err == nil && !good.IsMadeByAny(policy.Principals) {
			v.addFinding(NotAllowed, fmt.Sprintf("%s and is signed by %s, but paths that match %q can be changed only by %s%s",
				what, good.Signature, policy.Glob, strings.Join(policy.Principals, ", "), c.remedy))
		}
		if err = v.recordSignatureFault(err, what, c.remedy); err != nil {
			return err
		}
	}
	return nil
}
