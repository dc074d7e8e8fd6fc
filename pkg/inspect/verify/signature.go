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
func (v *Verifier) checkSignature(ctx context.Context, s *target, o *origin, what claim) ([]Check, error) {
	check := Check{Thing: ThingSignature, Name: "commit " + redact.Clean(what.commit)}
	keys, demanded := v.Keys, v.Keys != nil
	if keys == nil {
		var err error
		if keys, err = v.trusted(ctx, s.from); err != nil {
			return []Check{check.unproven("%s", redact.Clean(err.Error()))}, ctx.Err()
		}
	}
	claimed := s.signature()
	if !o.found || o.line == nil {
		return nil, nil
	}
	if keys == nil {
		if claimed == "" {
			return nil, nil
		}
		return []Check{check.unproven("the cluster claims %q, but no ProfileSource requires signatures now, so no keys are known: name files with keys in --keys", claimed)}, nil
	}
	good, err := o.line.SignatureOf(ctx, o.version.Commit, keys)
	var bad *signature.Error
	switch {
	case err == nil:
		check.Note = "signed by " + redact.Clean(good.Signature.String())
		want := redact.Clean(good.String())
		if claimed == "" || demanded && sameKey(claimed, good) {
			want = claimed // recorded before signatures were required, or the key files have other names
		}
		return []Check{check.with(firstOf(field{"signature", want, claimed}))}, nil
	case !errors.As(err, &bad):
		return nil, fmt.Errorf("reading the signature of commit %s: %w", o.version.Commit, err)
	}
	return v.otherSignature(ctx, o, other{check: check, keys: keys, claimed: claimed, bad: bad, demanded: demanded})
}

// sameKey reports whether a claimed signature names the key that made a good one.
func sameKey(claimed string, good source.Signed) bool {
	return strings.HasPrefix(claimed, good.What+" by ") && strings.HasSuffix(claimed, ", "+redact.Clean(good.Key))
}

// other is a commit without a good signature of its own. It may have been accepted because
// another commit is signed.
type other struct {
	check    Check
	keys     *signature.Keys
	claimed  string
	bad      *signature.Error
	demanded bool
}

func (v *Verifier) otherSignature(ctx context.Context, o *origin, u other) ([]Check, error) {
	what, _, _ := strings.Cut(u.claimed, " by ")
	id, invalid := source.ParseCommit(strings.TrimPrefix(what, "commit "))
	switch {
	case u.claimed == "" && !u.demanded:
		return v.unclaimed(ctx, o, u)
	case strings.HasPrefix(what, "tag "):
		return []Check{u.check.unproven("%s; it was accepted because of the signature of %s, which is not checked here", redact.Clean(u.bad.Message), redact.Clean(what))}, nil
	case u.claimed == "" || invalid != nil || id == o.version.Commit:
		return []Check{u.check.with(differ("signature", 0, "a good one"+because(u.claimed), redact.Clean(u.bad.Message)))}, nil //nolint:nilerr // a text without a commit is the finding
	}
	// Accepted because a later commit is signed.
	on, err := o.line.Continues(ctx, id)
	if err != nil {
		return nil, err
	}
	good, err := o.line.SignatureOf(ctx, id, u.keys)
	var bad *signature.Error
	switch {
	case !on || errors.As(err, &bad):
		return []Check{u.check.with(differ("signature", 0, "a good one"+because(u.claimed), redact.Clean(u.bad.Message)))}, nil
	case err != nil:
		return nil, fmt.Errorf("reading the signature of commit %s: %w", id, err)
	}
	u.check.Note = "it has no signature; accepted because of that of " + redact.Clean(good.String())
	if u.demanded && sameKey(u.claimed, good) {
		return []Check{u.check.with(nil)}, nil
	}
	return []Check{u.check.with(firstOf(field{"signature", redact.Clean(good.String()), u.claimed}))}, nil
}

// unclaimed checks a commit for which no signature is claimed. It may have been accepted
// before signatures were required. An attacker who removes the claim would look the same,
// so the followed commit, which has this one in its history, has to be signed.
func (v *Verifier) unclaimed(ctx context.Context, o *origin, u other) ([]Check, error) {
	message := redact.Clean(u.bad.Message)
	good, err := o.line.SignatureOf(ctx, o.line.Head, u.keys)
	var bad *signature.Error
	switch {
	case errors.As(err, &bad):
		return []Check{u.check.unproven("%s, and no signature is claimed; the followed commit %s has none either", message, o.line.Head)}, nil
	case err != nil:
		return nil, fmt.Errorf("reading the signature of commit %s: %w", o.line.Head, err)
	}
	return []Check{u.check.skipped("%s, and no signature is claimed; its descendant has one: %s", message, redact.Clean(good.String()))}, nil
}

func because(claimed string) string {
	if claimed == "" {
		return ""
	}
	return ": " + claimed
}

// signature returns the signature that the cluster claims.
func (s *target) signature() string {
	if s.node != nil {
		return s.node.Spec.Configuration.Signature
	}
	if s.osp != nil {
		return s.osp.Annotations[api.AnnotationSignature]
	}
	return ""
}

// trusted returns the keys of a ProfileSource that requires signatures; nil for any other.
func (v *Verifier) trusted(ctx context.Context, ps *api.ProfileSource) (*signature.Keys, error) {
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
