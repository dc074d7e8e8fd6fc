package token

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

const (
	// ClockJump is the difference between the change of the clock and the elapsed time, in either
	// direction, from which on the clock counts as set.
	ClockJump = 30 * time.Second
	// Jitter spreads the renewals of many pools, as a share of the wait.
	Jitter = 0.05
)

// Node is the token with which a pool's machines fetch their Secrets: the
// getter's, which all pools share, or one that is bound to the pool.
//
// A bound token is stored only in the documents that carry it and in this process. The
// annotations of a document say when its token expires and when the next is due, and its tokens
// digest covers these times and the ServiceAccount, so that a restarted controller can compare
// the document without having the token. A document that is written for another reason carries
// the token of this process; after a restart it gets a new one. That is one request, which stores
// nothing. Reading the document back would be one request too, and the controller would have to
// find the token in a form that the profile chose, such as base64.
//
// An unchanged pool needs three requests in half of a token's lifetime: the TokenRequest and
// its two documents. One of provider edge needs four: its script carries the token too.
type Node struct {
	Value   string    // empty where only documents have it
	Account types.UID // of the ServiceAccount it is bound to; empty for the getter's
	Expires time.Time // zero for the getter's, which does not end
	Renew   time.Time // when the next one is due
}

// IsCurrent reports whether the next token is not due yet. If a token was issued in the future, the
// clock was ahead: it expires earlier than it says, so the next one is due.
func (t Node) IsCurrent(now time.Time) bool {
	// It is renewed after half its life, or a little later: see nodeFromResponse.
	longest := time.Duration(2 * float64(t.Expires.Sub(t.Renew)) / (1 - Jitter))
	return now.Before(t.Renew) && now.Add(ClockJump).After(t.Expires.Add(-longest))
}

// DigestInput returns the bytes over which a tokens digest is taken.
func (t Node) DigestInput() []byte {
	if t.Account == "" {
		return []byte(t.Value)
	}
	return []byte("bound " + string(t.Account) + " " + lineage.FormatTime(t.Expires) + " " + lineage.FormatTime(t.Renew))
}

// SetExpiryAnnotations records when the token expires and when the next is due.
func (t Node) SetExpiryAnnotations(annotations map[string]string) {
	if t.Account == "" {
		return
	}
	annotations[api.AnnotationCredentialsExpireAt] = lineage.FormatTime(t.Expires)
	annotations[api.AnnotationCredentialsRenewAt] = lineage.FormatTime(t.Renew)
}

// ReusableFromSecret returns the bound token in a Secret if it can remain: it is of the given
// account, and the next is not due.
func ReusableFromSecret(have *corev1.Secret, account types.UID, now time.Time) (Node, bool) {
	if have == nil || account == "" {
		return Node{}, false
	}
	stored := Node{
		Account: account,
		Expires: lineage.AnnotatedTime(have.Annotations, api.AnnotationCredentialsExpireAt),
		Renew:   lineage.AnnotatedTime(have.Annotations, api.AnnotationCredentialsRenewAt),
	}
	return stored, stored.IsCurrent(now)
}

// GetterToken returns the getter's token, which all pools share.
func (k Tokens) GetterToken(ctx context.Context) (Node, error) {
	key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken}
	var secret corev1.Secret
	found, err := kubeclient.Find(ctx, k.Worker, key, &secret)
	if err != nil {
		return Node{}, err
	}
	if token := string(secret.Data["token"]); found && token != "" {
		return Node{Value: token}, nil
	}
	return Node{}, fault.Await("the Secret %s with a token does not exist: create it with type kubernetes.io/service-account-token for the ServiceAccount cloud-init-getter", key)
}

// Request asks the API server for a token of a pool's ServiceAccount.
func (k Tokens) Request(ctx context.Context, account *corev1.ServiceAccount) (Node, error) {
	life := int64(k.NodeTTL / time.Second)
	request := &authenticationv1.TokenRequest{
		// With the uid, the API server rejects the request if the account was created again.
		ObjectMeta: metav1.ObjectMeta{UID: account.UID},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: &life},
	}
	requestedAt := k.Clock.Now()
	if err := k.Worker.SubResource("token").Create(ctx, account, request); err != nil {
		return Node{}, fault.MarkRace(fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err))
	}
	return nodeFromResponse(request, account.UID, requestedAt)
}

// nodeFromResponse reads the answer to a TokenRequest that was sent at a time of our clock. The API server
// decides the lifetime of the token, which can differ from the requested one
// (--service-account-max-token-expiration). It is computed from the server's two times, if it
// returns both, so that the clocks can differ.
func nodeFromResponse(answer *authenticationv1.TokenRequest, account types.UID, requestedAt time.Time) (Node, error) {
	from := answer.CreationTimestamp.Time
	if from.IsZero() {
		from = requestedAt
	}
	life := answer.Status.ExpirationTimestamp.Sub(from)
	if answer.Status.Token == "" || life <= 0 {
		return Node{}, fmt.Errorf("the API server answered a TokenRequest with a token that lives %s", life)
	}
	return Node{
		Value: answer.Status.Token, Account: account,
		Expires: requestedAt.Add(life).Truncate(time.Second),
		// The jitter adds to half of the lifetime: it spreads pools that were created together.
		Renew: requestedAt.Add(wait.Jitter(life/2, Jitter)).Truncate(time.Second),
	}, nil
}
