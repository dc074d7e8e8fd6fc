package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// checkSignature checks the signature of the commit. Without keys no signature can be
// verified, and the cluster must not claim one.
func (v *Verifier) checkSignature(ctx context.Context, s *target, o *origin, what api.ProvenanceConfiguration) ([]Check, error) {
	check := Check{Thing: ThingSignature, Name: "commit " + redact.PrintableLine(what.Commit)}
	keys, required := v.Keys, v.Keys != nil
	if keys == nil {
		var err error
		if keys, err = v.trustedKeys(ctx, s.from); err != nil {
			return []Check{check.asUnproven("%s", redact.PrintableLine(err.Error()))}, ctx.Err()
		}
	}
	claimed := s.claimedSignature()
	if !o.found || o.line == nil {
		return nil, nil
	}
	if keys == nil {
		if claimed == "" {
			return nil, nil
		}
		return []Check{check.asUnproven("the cluster claims %q, but no ProfileSource requires signatures now, so no keys are known: name files with keys in --keys", claimed)}, nil
	}
	good, err := o.line.SignatureOf(ctx, o.version.Commit, keys)
	var bad *signature.Error
	switch {
	case err == nil:
		check.Note = "signed by " + redact.PrintableLine(good.Signature.String())
		want := redact.PrintableLine(good.String())
		if claimed == "" || required && sameKey(claimed, good) {
			want = claimed // recorded before signatures were required, or the key files have other names
		}
		return []Check{check.withDifference(firstMismatch(field{"signature", want, claimed}))}, nil
	case !errors.As(err, &bad):
		return nil, fmt.Errorf("reading the signature of commit %s: %w", o.version.Commit, err)
	}
	return v.checkUnsignedCommit(ctx, o, unsignedCommit{check: check, keys: keys, claimed: claimed, bad: bad, required: required})
}

// sameKey reports whether a claimed signature names the key that made a good one.
func sameKey(claimed string, good source.Signed) bool {
	return strings.HasPrefix(claimed, good.What+" by ") && strings.HasSuffix(claimed, ", "+redact.PrintableLine(good.Key))
}

// unsignedCommit is a commit without a good signature of its own. It may have been accepted because
// another commit is signed.
type unsignedCommit struct {
	check    Check
	keys     *signature.Keys
	claimed  string
	bad      *signature.Error
	required bool
}

// checkUnsignedCommit checks a commit without a good signature of its own: whether the commit or
// tag for which it was accepted is signed.
func (v *Verifier) checkUnsignedCommit(ctx context.Context, o *origin, u unsignedCommit) ([]Check, error) {
	what, _, _ := strings.Cut(u.claimed, " by ")
	id, invalid := source.ParseCommit(strings.TrimPrefix(what, "commit "))
	switch {
	case u.claimed == "" && !u.required:
		return v.checkUnclaimedByFollowedHead(ctx, o, u)
	case strings.HasPrefix(what, "tag "):
		return []Check{u.check.asUnproven("%s; it was accepted because of the signature of %s, which is not checked here", redact.PrintableLine(u.bad.Message), redact.PrintableLine(what))}, nil
	case u.claimed == "" || invalid != nil || id == o.version.Commit:
		return []Check{u.check.withDifference(newDifference("signature", 0, "a good one"+reasonSuffix(u.claimed), redact.PrintableLine(u.bad.Message)))}, nil //nolint:nilerr // a text without a commit is the finding
	}
	// Accepted because a later commit is signed.
	on, err := o.line.FirstParentsContain(ctx, id)
	if err != nil {
		return nil, err
	}
	good, err := o.line.SignatureOf(ctx, id, u.keys)
	var bad *signature.Error
	switch {
	case !on || errors.As(err, &bad):
		return []Check{u.check.withDifference(newDifference("signature", 0, "a good one"+reasonSuffix(u.claimed), redact.PrintableLine(u.bad.Message)))}, nil
	case err != nil:
		return nil, fmt.Errorf("reading the signature of commit %s: %w", id, err)
	}
	u.check.Note = "it has no signature; accepted because of that of " + redact.PrintableLine(good.String())
	if u.required && sameKey(u.claimed, good) {
		return []Check{u.check.withDifference(nil)}, nil
	}
	return []Check{u.check.withDifference(firstMismatch(field{"signature", redact.PrintableLine(good.String()), u.claimed}))}, nil
}

// checkUnclaimedByFollowedHead checks a commit for which no signature is claimed. It may have been accepted
// before signatures were required. An attacker who removes the claim would look the same,
// so the followed commit, which has this one in its history, has to be signed.
func (v *Verifier) checkUnclaimedByFollowedHead(ctx context.Context, o *origin, u unsignedCommit) ([]Check, error) {
	message := redact.PrintableLine(u.bad.Message)
	good, err := o.line.SignatureOf(ctx, o.line.Head, u.keys)
	var bad *signature.Error
	switch {
	case errors.As(err, &bad):
		return []Check{u.check.asUnproven("%s, and no signature is claimed; the followed commit %s has none either", message, o.line.Head)}, nil
	case err != nil:
		return nil, fmt.Errorf("reading the signature of commit %s: %w", o.line.Head, err)
	}
	return []Check{u.check.asSkipped("%s, and no signature is claimed; its descendant has one: %s", message, redact.PrintableLine(good.String()))}, nil
}

func reasonSuffix(claimed string) string {
	if claimed == "" {
		return ""
	}
	return ": " + claimed
}

// claimedSignature returns the signature that the cluster claims.
func (s *target) claimedSignature() string {
	if s.node != nil {
		return s.node.Spec.Configuration.Signature
	}
	if s.osp != nil {
		return s.osp.Annotations[api.AnnotationSignature]
	}
	return ""
}

// trustedKeys returns the keys of a ProfileSource that requires signatures; nil for any other.
func (v *Verifier) trustedKeys(ctx context.Context, ps *api.ProfileSource) (*signature.Keys, error) {
	if ps == nil || ps.Spec.Git == nil || ps.Spec.Git.Verify == nil {
		return nil, nil
	}
	name := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Spec.Git.Verify.SecretRef.Name}
	var secret corev1.Secret
	found, err := kubeclient.Find(ctx, v.Management, name, &secret)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: name files with the public keys in --keys", err)
	case !found:
		return nil, fmt.Errorf("the Secret %s with the public keys does not exist: name files with the keys in --keys", name)
	}
	keys, err := signature.ParseKeys(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s: %w", name, err)
	}
	return keys, nil
}
