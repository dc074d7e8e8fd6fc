package pools

import (
	"context"
	"fmt"
	"maps"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// nodeToken is the token with which a pool's machines fetch their Secrets: the
// getter's, which all pools share, or one that is bound to the pool.
//
// A bound token is kept nowhere but in the documents that carry it and in this
// process. A document says in its annotations when its token ends and when the
// next is due, and its tokens digest is taken over that and the ServiceAccount, so
// that a controller that starts again knows without the token whether the document
// is as it should be. A document that is written for another reason carries the
// token of this process; after a restart it gets a new one. That is one request,
// which stores nothing, as reading the document back would be one, and nobody has
// to find a token in what a profile may have made of it, such as base64.
//
// A pool at rest costs three requests in half a token's life: the TokenRequest and
// its two documents. One of provider edge costs four: its script carries it too.
type nodeToken struct {
	value   string    // empty where only documents have it
	account types.UID // of the ServiceAccount it is bound to; empty for the getter's
	expires time.Time // zero for the getter's, which does not end
	renew   time.Time // from when the next is due
}

// stays reports whether the next token is not due yet. One that was issued later than now
// was issued while the clock was ahead: it ends earlier than it says, so that one is due.
func (t nodeToken) stays(now time.Time) bool {
	// It is renewed after half its life, or a little later: see issued.
	longest := time.Duration(2 * float64(t.expires.Sub(t.renew)) / (1 - renewJitter))
	return now.Before(t.renew) && now.Add(clockJump).After(t.expires.Add(-longest))
}

// identity is what a tokens digest is taken over.
func (t nodeToken) identity() []byte {
	if t.account == "" {
		return []byte(t.value)
	}
	return []byte("bound " + string(t.account) + " " + stamp(t.expires) + " " + stamp(t.renew))
}

// annotate says when the token ends and when the next is due.
func (t nodeToken) annotate(annotations map[string]string) {
	if t.account == "" {
		return
	}
	annotations[api.AnnotationCredentialsExpireAt] = stamp(t.expires)
	annotations[api.AnnotationCredentialsRenewAt] = stamp(t.renew)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// annotatedTime reads a time from an annotation, zero where there is none.
func annotatedTime(annotations map[string]string, key string) time.Time {
	t, err := time.Parse(time.RFC3339, annotations[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

// standingToken is the bound token that a Secret carries, where that one stays: the
// account is still the same, and the next is not due.
func (seen *observed) standingToken(have *corev1.Secret) (nodeToken, bool) {
	if have == nil || seen.node.account == "" {
		return nodeToken{}, false
	}
	t := nodeToken{
		account: seen.node.account,
		expires: annotatedTime(have.Annotations, api.AnnotationCredentialsExpireAt),
		renew:   annotatedTime(have.Annotations, api.AnnotationCredentialsRenewAt),
	}
	return t, t.stays(seen.now)
}

// withStandingToken is what the annotations of a document should be, given that the
// token in it may stay.
func (g generation) withStandingToken(seen *observed, have *corev1.Secret, want map[string]string) map[string]string {
	t, ok := seen.standingToken(have)
	if !ok {
		return want
	}
	out := maps.Clone(want)
	out[api.AnnotationTokensDigest] = g.digestWith(seen.key, t)
	t.annotate(out)
	return out
}

// digestWith is the tokens digest of a document that carries a token.
func (g generation) digestWith(key []byte, t nodeToken) string {
	return keyedDigest(key, t.identity(), []byte(g.in.Cluster.BootstrapKubeconfig))
}

// nodeToken finds the token for documents that are written now. It asks for none:
// that is for withNodeToken, once a document needs it.
func (r *Reconciler) nodeToken(ctx context.Context, seen *observed) (nodeToken, error) {
	if r.NodeTokenTTL == 0 || seen.objects.takenOver() {
		getter, err := r.getterToken(ctx)
		return nodeToken{value: getter}, err
	}
	account := seen.objects.account
	if account == nil || otherPool(account, seen.md) {
		return nodeToken{}, nil
	}
	if t := r.memories.recall(seen.md).token; t.account == account.UID && t.stays(seen.now) {
		return t, nil
	}
	return nodeToken{account: account.UID}, nil
}

// withNodeToken asks for a token that is bound to the pool, and returns what was
// observed with it.
func (r *Reconciler) withNodeToken(ctx context.Context, seen *observed) (*observed, error) {
	account, err := r.ensureAccount(ctx, seen)
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{UID: account.UID},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr(int64(r.NodeTokenTTL / time.Second))},
	}
	asked := r.Clock.Now()
	if err := r.Worker.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fault.Raced(fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err))
	}
	token, err := issued(request, account.UID, asked)
	if err != nil {
		return nil, err
	}
	r.memories.remember(seen.md, func(m *memory) { m.token = token })
	next := *seen
	next.node, next.objects.account = token, account
	next.values.APIServerToken, next.desired.Cluster.APIServerToken = token.value, token.value
	return &next, nil
}

// issued reads the answer to a TokenRequest that was sent at a time of our clock.
// How long the token lives is the API server's word, which may differ from what
// was asked for (--service-account-max-token-expiration). It is counted between the
// server's two times, where it gives both, so that clocks may differ.
func issued(answer *authenticationv1.TokenRequest, account types.UID, asked time.Time) (nodeToken, error) {
	from := answer.CreationTimestamp.Time
	if from.IsZero() {
		from = asked
	}
	life := answer.Status.ExpirationTimestamp.Sub(from)
	if answer.Status.Token == "" || life <= 0 {
		return nodeToken{}, fmt.Errorf("the API server answered a TokenRequest with a token that lives %s", life)
	}
	return nodeToken{
		value: answer.Status.Token, account: account,
		expires: asked.Add(life).Truncate(time.Second),
		// Later than half, never earlier: pools that came together part here.
		renew: asked.Add(wait.Jitter(life/2, renewJitter)).Truncate(time.Second),
	}, nil
}
