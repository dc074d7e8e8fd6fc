package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// Result is the result of checking whether a snapshot can be applied.
type Result struct {
	signed  []source.Signed // if signatures are required: that of the tag, then that of the head
	keys    *signature.Keys // nil if no signatures are required
	paths   []source.PathPolicy
	Rewrite *api.Rewrite // the history that this snapshot replaces
}

// Approver approves the snapshots of one source.
type Approver struct {
	// Live reads the Secret with the public keys from the API server.
	Live client.Reader
	// Now is the time at which keys must be valid.
	Now func() time.Time

	// keys are the parsed keys until the Secret changes. They cache the results of their checks,
	// so that verifying the same commit again is cheap. A change of the Secret discards them, so
	// that no result outlives the removal of a key (security.md 26).
	keys *signature.Keys
}

// Approve decides whether to apply a snapshot. It verifies signatures first, so that their
// result is reported even if spec.git.onRewrite holds the history back.
func (p *Approver) Approve(ctx context.Context, ps *api.ProfileSource, snap *source.Snapshot) (Result, error) {
	git := ps.Spec.Git
	if git == nil {
		return Result{}, nil
	}
	before, err := compareWithStatus(ctx, ps, snap)
	if err != nil {
		return Result{}, err
	}
	a := Result{Rewrite: before.rewrite}
	accepted := ps.Annotations[api.AnnotationAcceptRewrite] == string(snap.Head)
	if git.Verify != nil {
		keys, err := p.trustedKeys(ctx, ps)
		if err != nil {
			return a, err
		}
		policy := verificationPolicy(git.Verify)
		policy.Keys = keys
		policy.Since = before.commit
		policy.Now = p.Now()
		if a.signed, err = verify(ctx, snap, policy, accepted); err != nil {
			return a, addRemedy(err, snap, a.Rewrite)
		}
		a.keys, a.paths = keys, policy.Paths
	}
	if a.Rewrite != nil && git.OnRewrite == "Hold" && !accepted {
		return a, &RewriteError{*a.Rewrite, snap.Head}
	}
	return a, nil
}

// previousState is the state of the last reconciliation.
type previousState struct {
	commit  source.Commit // "" if nothing was applied
	rewrite *api.Rewrite
}

// compareWithStatus compares a snapshot with the status. If the status is about another repository,
// it is ignored. If it is about another reference, it names the applied commit, but the
// difference is not a rewrite.
func compareWithStatus(ctx context.Context, ps *api.ProfileSource, snap *source.Snapshot) (previousState, error) {
	last := cmp.Or(ps.Status.LastAttemptedRevision, ps.Status.Revision)
	if ps.Status.Repository != "" && ps.Status.Repository != snap.Repository {
		return previousState{}, nil
	}
	name, commit := source.SplitRevision(last)
	now, _ := source.SplitRevision(snap.Revision)
	p := previousState{commit: commit}
	if commit == "" || commit == snap.Head || name == "" || name != now {
		return p, nil
	}
	continued := false
	if !isTag(snap) { // a tag must not move, not even to a descendant
		var err error
		if continued, err = snap.FirstParentsContain(ctx, commit); err != nil {
			return p, err
		}
	}
	if !continued {
		p.rewrite = &api.Rewrite{From: last, To: snap.Revision}
	}
	return p, nil
}

func isTag(snap *source.Snapshot) bool { return strings.HasPrefix(snap.Reference, "refs/tags/") }

// RewriteError reports that history was rewritten and must not be followed.
type RewriteError struct {
	api.Rewrite
	head source.Commit
}

func (e *RewriteError) Error() string {
	return fmt.Sprintf("%s, and spec.git.onRewrite is Hold: applied profiles remain, and nothing of the new commit is applied. "+
		"To follow it, annotate this ProfileSource with %s=%s, or set onRewrite to Accept; otherwise push a commit that continues the old one",
		DescribeRewrite(e.Rewrite), api.AnnotationAcceptRewrite, e.head)
}

// DescribeRewrite describes a rewrite, with the old and the new commit.
func DescribeRewrite(r api.Rewrite) string {
	return fmt.Sprintf("history was rewritten by a force-push, a moved tag, or a merge whose first parent is not the followed commit: %s does not continue %s, which was followed before", redact.PrintableLine(r.To), redact.PrintableLine(r.From))
}

// verify checks signatures. If the range of new commits is unknown, a user must have
// accepted the head; verification then starts there, as for a new ProfileSource.
func verify(ctx context.Context, snap *source.Snapshot, policy source.VerificationPolicy, accepted bool) ([]source.Signed, error) {
	signed, err := snap.Verify(ctx, policy)
	if bad, ok := errors.AsType[*source.UnverifiedError](err); accepted && ok && bad.Reason == source.RangeUnknown {
		policy.Since = ""
		return snap.Verify(ctx, policy)
	}
	return signed, err
}

func verificationPolicy(v *api.GitVerification) source.VerificationPolicy {
	d := source.VerificationPolicy{
		Head:  v.Mode != "Tag",
		Tag:   v.Mode == "Tag" || v.Mode == "TagAndHEAD",
		Range: v.Range,
	}
	for _, p := range v.Paths {
		d.Paths = append(d.Paths, source.PathPolicy{Glob: p.Glob, Principals: p.Principals})
	}
	return d
}

// BaseCheck returns the check whether a file can be the base of an overlay: every path policy
// of the overlay needs one of the base that allows the same principals or fewer. Otherwise
// other principals could change the overlay's result through its base. nil allows every base.
func BaseCheck(git *api.GitSource) func(overlay, base string) error {
	if git == nil || git.Verify == nil || len(git.Verify.Paths) == 0 {
		return nil
	}
	paths := verificationPolicy(git.Verify).Paths
	return func(overlay, base string) error {
		for _, p := range paths {
			if !p.Matches(overlay) || slices.ContainsFunc(paths, func(q source.PathPolicy) bool {
				return q.Matches(base) && sets.New(p.Principals...).HasAll(q.Principals...)
			}) {
				continue
			}
			return fmt.Errorf("paths that match %q can be changed only by %s, but spec.git.verify.paths does not restrict %s to them", p.Glob, strings.Join(p.Principals, ", "), base)
		}
		return nil
	}
}

// CheckSpec rejects verification settings that no commit can meet.
func CheckSpec(git *api.GitSource) error {
	if git == nil || git.Verify == nil {
		return nil
	}
	var wrong []error
	d := verificationPolicy(git.Verify)
	for i, p := range d.Paths {
		if err := p.CheckGlob(); err != nil {
			wrong = append(wrong, fmt.Errorf("spec.git.verify.paths[%d].glob: %w", i, err))
		}
	}
	ref := git.Ref
	if d.Tag && (ref == nil || ref.Tag == "" && ref.SemVer == "" && !strings.HasPrefix(ref.Name, "refs/tags/")) {
		wrong = append(wrong, fmt.Errorf("spec.git.verify.mode: %s needs a tag: set spec.git.ref.tag or semver, or mode: HEAD", git.Verify.Mode))
	}
	if err := errors.Join(wrong...); err != nil {
		return &fetcher.SpecError{Reason: api.ReasonSourceInvalid, Err: err}
	}
	return nil
}

// trustedKeys reads the Secret with the public keys. It parses the keys only if they changed.
func (p *Approver) trustedKeys(ctx context.Context, ps *api.ProfileSource) (*signature.Keys, error) {
	name := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Spec.Git.Verify.SecretRef.Name}
	var secret corev1.Secret
	err := p.Live.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		return nil, &UnverifiedError{Reason: api.ReasonKeysInvalid, Wait: true, err: fmt.Errorf("spec.git.verify.secretRef: Secret %s does not exist: create it with the public keys of those who may sign", name)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if p.keys != nil && p.keys.Digest() == signature.Digest(secret.Data) {
		return p.keys, nil
	}
	keys, err := signature.ParseKeys(secret.Data)
	if err != nil {
		return nil, &UnverifiedError{Reason: api.ReasonKeysInvalid, Wait: true, err: fmt.Errorf("spec.git.verify.secretRef: Secret %s: %w", name, err)}
	}
	p.keys = keys
	return keys, nil
}

// UnverifiedError reports that valid signatures are missing, so that nothing is applied.
type UnverifiedError struct {
	Reason string // of the condition SourceVerified
	Wait   bool   // for a change outside the source, such as in the Secret
	err    error
}

func (e *UnverifiedError) Error() string { return e.err.Error() }
func (e *UnverifiedError) Unwrap() error { return e.err }

// addRemedy adds the remedy to an error if the source does not know it.
func addRemedy(err error, snap *source.Snapshot, rewrite *api.Rewrite) error {
	var bad *source.UnverifiedError
	if !errors.As(err, &bad) {
		return err
	}
	if bad.Reason == source.RangeUnknown {
		err = fmt.Errorf("%w: review the current commit, then annotate this ProfileSource with %s=%s to continue from it", err, api.AnnotationAcceptRewrite, snap.Head)
	}
	if rewrite != nil {
		err = fmt.Errorf("%w\nand %s", err, DescribeRewrite(*rewrite))
	}
	return &UnverifiedError{Reason: reasonOf(bad.Reason), err: err}
}

func reasonOf(r signature.Reason) string {
	switch r {
	case signature.Missing:
		return api.ReasonUnsigned
	case signature.OfUnknownKey:
		return api.ReasonUnknownSigner
	case signature.OfExpiredKey:
		return api.ReasonKeyExpired
	case signature.OfRevokedKey:
		return api.ReasonKeyRevoked
	case source.NotAllowed:
		return api.ReasonSignerNotAllowed
	case source.RangeUnknown:
		return api.ReasonRangeUnknown
	}
	return api.ReasonSignatureInvalid
}

// Required reports whether signatures are required.
func (a Result) Required() bool { return a.keys != nil }

// DescribeSignatures describes the signatures with which the revision was approved.
func (a Result) DescribeSignatures() string {
	var signed []string
	for _, s := range a.signed {
		signed = append(signed, s.String())
	}
	return "signed: " + strings.Join(signed, "; ")
}

// SignatureOf returns the signature that the provenance of a version names: that of its
// own commit, otherwise the one with which the revision was approved. It returns "" if
// signatures are not required.
func (a Result) SignatureOf(ctx context.Context, snap *source.Snapshot, v catalog.Version) (string, error) {
	if a.keys == nil {
		return "", nil
	}
	versionSignature, err := snap.SignatureOf(ctx, v.Commit, a.keys)
	var none *signature.Error
	switch {
	case err == nil:
		return redact.PrintableLine(versionSignature.String()), nil
	case !errors.As(err, &none):
		return "", fmt.Errorf("reading the signature of commit %s: %w", v.Commit, err)
	case len(a.signed) == 0:
		return "", nil
	}
	return redact.PrintableLine(a.signed[len(a.signed)-1].String()), nil
}

// SignatureProblem returns why a version from an earlier commit must not become an object, "" if
// nothing forbids it. If required, that commit and those of its bases need a valid signature of a
// principal whom the path policies allow to change the file. The head was approved with the
// revision.
func (a Result) SignatureProblem(ctx context.Context, snap *source.Snapshot, v catalog.Version) (string, error) {
	for at := &v; at != nil; at = at.From {
		why, err := a.ownSignatureProblem(ctx, snap, *at)
		if why != "" && at != &v {
			why = fmt.Sprintf("of its base, profile %q %s from %s, %s", at.Name, at.Version, at.Path, why)
		}
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// ownSignatureProblem is SignatureProblem for a version without regard to its base.
func (a Result) ownSignatureProblem(ctx context.Context, snap *source.Snapshot, v catalog.Version) (string, error) {
	if a.keys == nil || v.Commit == "" || v.AtHead {
		return "", nil
	}
	good, err := snap.SignatureOf(ctx, v.Commit, a.keys)
	var bad *signature.Error
	switch {
	case errors.As(err, &bad):
		return fmt.Sprintf("its commit %s: %s", v.Commit, bad.Message), nil
	case err != nil:
		return "", fmt.Errorf("reading the signature of commit %s: %w", v.Commit, err)
	}
	for _, p := range a.paths {
		if p.Matches(v.Path) && !good.IsMadeByAny(p.Principals) {
			return fmt.Sprintf("its commit %s is signed by %s, but paths that match %q can be changed only by %s", v.Commit, good.Signature, p.Glob, strings.Join(p.Principals, ", ")), nil
		}
	}
	return "", nil
}
