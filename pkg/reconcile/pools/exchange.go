package pools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// exchange plans for documents that cannot be rendered again, because what they were
// made from is gone, that a token which is due gives way to another all the same. It
// is found by what it says of itself, and only where it stands as it is: a profile
// that encodes it has to be put right before it ends. The plan needs a token where
// there is none to put in its place.
func (r *Reconciler) exchange(ctx context.Context, seen *observed, p plan) (plan, error) {
	for _, d := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{seen.objects.provisioning, &p.provisioning}, {seen.objects.bootstrap, &p.bootstrap}} {
		if d.have == nil || annotatedTime(d.have.Annotations, api.AnnotationCredentialsExpireAt).IsZero() {
			continue // none, or one with the getter's token
		}
		if t, stays := seen.standingToken(d.have); stays {
			p.look = earliest(p.look, t.renew)
			continue
		}
		if seen.node.value == "" {
			return plan{needsNodeToken: true}, nil
		}
		write, err := r.exchanged(ctx, seen, d.have)
		if err != nil {
			return plan{}, err
		}
		if write == nil && p.unrenewed == nil {
			continue // it is tried again
		}
		if write == nil {
			p.unrenewed = fmt.Errorf("%w; the token in Secret %s ends at %s", p.unrenewed, d.have.Name, d.have.Annotations[api.AnnotationCredentialsExpireAt])
			continue
		}
		d.into.write = write
		p.look = earliest(p.look, seen.node.renew)
	}
	return p, nil
}

// exchanged is a document with another token, nil where the one in it is not found.
// It has no tokens digest, so that it is rendered as soon as that is possible.
func (r *Reconciler) exchanged(ctx context.Context, seen *observed, have *corev1.Secret) (*corev1.Secret, error) {
	var live corev1.Secret
	if err := r.Worker.Live.Get(ctx, client.ObjectKeyFromObject(have), &live); err != nil {
		return nil, fault.Raced(fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(have), err))
	}
	found := false
	document := webToken.ReplaceAllFunc(live.Data[api.UserDataKey], func(token []byte) []byte {
		if !bornBy(string(token), seen.md) {
			return token
		}
		found = true
		return []byte(seen.node.value)
	})
	if !found {
		return nil, nil
	}
	annotations := maps.Clone(live.Annotations)
	for _, key := range []string{api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt, api.AnnotationCredentialsRenewAt} {
		delete(annotations, key)
	}
	seen.node.annotate(annotations)
	annotations[api.AnnotationDataDigest] = dataDigest(document)
	return secretFor(live.Name, &live, annotations, map[string][]byte{api.UserDataKey: document}), nil
}

// webToken is a signed JSON web token, the form of ServiceAccounts' tokens (RFC 7515,
// section 7.1): the first part is an object, so it begins with the base64 of `{"`.
var webToken = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// bornBy reports whether a token says that it is of a pool's account.
func bornBy(token string, md *cluster.MachineDeployment) bool {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return false
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	err = json.Unmarshal(payload, &claims)
	return err == nil && claims.Subject == "system:serviceaccount:"+api.NamespaceCloudInitSettings+":"+accessName(md)
}
