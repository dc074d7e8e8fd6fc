package token

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// Index is the field by which a cache lists bootstrap tokens: the label that names their pool.
const Index = "token-pool"

const (
	// Life is how long a new token lives, as with operating-system-manager.
	Life = time.Hour
	// RenewBefore is the remaining lifetime at which its expiration is extended, also as with
	// operating-system-manager.
	RenewBefore = 30 * time.Minute
	// tooOld is when a token that was not renewed in time is given up: a
	// machine that boots with it now would not join.
	tooOld = time.Minute
	// Groups are those of a kubelet that has not joined yet. machine-controller's manifests bind
	// the permission to request a certificate to them.
	Groups = "system:bootstrappers:machine-controller:default-node-token"
	// alphabet has no vowels, so that a token spells nothing.
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// rights are the keys of a bootstrap token that say what it can be used for.
var rights = map[string]string{
	bootstrapapi.BootstrapTokenUsageAuthentication: "true",
	bootstrapapi.BootstrapTokenUsageSigningKey:     "true",
	bootstrapapi.BootstrapTokenExtraGroupsKey:      Groups,
}

// Bootstrap is the token with which a pool's kubelets join.
type Bootstrap struct {
	Value   string
	Expires time.Time      // zero when it does not end
	Secret  *corev1.Secret // in its desired state; nil if the token is a ServiceAccount's
	Create  bool           // there is none yet: New generates it, and Secret is to be created
	Renew   bool           // Secret exists, is as it should be, and has to be updated
	Poll    bool           // no watch reports when it changes
	Edited  []string       // keys that a user edited, and a renewal restores
}

// Tokens finds and requests the tokens of pools. It is a value, made for one use.
type Tokens struct {
	// Worker reads through a cache, and writes; Live reads from the same API server.
	Worker client.Client
	Live   client.Reader
	// Indexed says that Worker lists Secrets by Index.
	Indexed bool
	Clock   clock.PassiveClock
	// ServiceAccount replaces bootstrap tokens by its own; empty for none.
	ServiceAccount types.NamespacedName
	// NodeTTL is how long a node token is asked to live.
	NodeTTL time.Duration
	// Shared reports whether another pool has a derived name of this pool too.
	Shared func(ctx context.Context, md *cluster.MachineDeployment, name string) (bool, error)
}

// FindBootstrap finds the pool's token; if it is about to expire, Secret is the one to write. If there
// is none, only Create is set. The cache can be stale, and a superfluous token cannot be distinguished
// from a valid one, so it asks the API server before it reports that there is none, except for a new
// pool, which has no token yet.
func (k Tokens) FindBootstrap(ctx context.Context, md *cluster.MachineDeployment, isNew bool) (Bootstrap, error) {
	now := k.Clock.Now()
	if k.ServiceAccount.Name != "" {
		return k.serviceAccountToken(ctx)
	}
	lists := []func() ([]corev1.Secret, error){
		func() ([]corev1.Secret, error) { return ListBootstrapSecrets(ctx, k.Worker, k.Indexed, md) },
		func() ([]corev1.Secret, error) { return ListBootstrapSecrets(ctx, k.Live, false, md) },
	}
	if isNew {
		lists = lists[:1]
	}
	for _, list := range lists {
		secrets, err := list()
		if err != nil {
			return Bootstrap{}, err
		}
		if secrets, err = k.withoutShared(ctx, md, secrets); err != nil {
			return Bootstrap{}, err
		}
		longest, ok := longestLived(secrets, now)
		if !ok {
			continue
		}
		// The Secret is that of the cache.
		longest.Secret = longest.Secret.DeepCopy()
		if left := longest.Expires.Sub(now); !longest.Expires.IsZero() && left < RenewBefore {
			longest.Renew, longest.Expires = true, now.Add(Life)
			longest.Secret.Data[bootstrapapi.BootstrapTokenExpirationKey] = Expiration(longest.Expires)
		}
		// Without these rights nodes cannot join with the token.
		for key, want := range rights {
			if string(longest.Secret.Data[key]) == want {
				continue
			}
			longest.Renew, longest.Secret.Data[key] = true, []byte(want)
			if lineage.PoolOf(longest.Secret) != "" {
				longest.Edited = append(longest.Edited, key)
			}
		}
		if lineage.PoolOf(longest.Secret) == "" { // created by OSM: after it gets an owner, it is deleted with the pool
			longest.Renew = true
			metav1.SetMetaDataAnnotation(&longest.Secret.ObjectMeta, api.AnnotationPool, client.ObjectKeyFromObject(md).String())
			metav1.SetMetaDataAnnotation(&longest.Secret.ObjectMeta, api.AnnotationPoolUID, string(md.UID))
		}
		return longest, nil
	}
	return Bootstrap{Create: true}, nil
}

// ListBootstrapSecrets lists the pool's token Secrets.
func ListBootstrapSecrets(ctx context.Context, from client.Reader, indexed bool, md *cluster.MachineDeployment) ([]corev1.Secret, error) {
	var list corev1.SecretList
	var ofPool client.ListOption = client.MatchingLabels{api.LabelTokenPool: lineage.TokenLabel(client.ObjectKeyFromObject(md))}
	if indexed { // of ten thousand, not one by one
		ofPool = client.MatchingFields{Index: lineage.TokenLabel(client.ObjectKeyFromObject(md))}
	}
	err := from.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), ofPool)
	if err != nil {
		return nil, fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	// The label is ambiguous: "a-b" of "c" and "b" of "c-a" share it.
	return slices.DeleteFunc(list.Items, func(s corev1.Secret) bool {
		owner := lineage.PoolOf(&s)
		return owner != "" && owner != client.ObjectKeyFromObject(md).String()
	}), nil
}

// withoutShared leaves out tokens of OSM if another pool has the same label: they can belong to
// that pool, and would be deleted with this one.
func (k Tokens) withoutShared(ctx context.Context, md *cluster.MachineDeployment, secrets []corev1.Secret) ([]corev1.Secret, error) {
	unowned := func(s corev1.Secret) bool { return lineage.PoolOf(&s) == "" }
	if !slices.ContainsFunc(secrets, unowned) {
		return secrets, nil
	}
	shared, err := k.Shared(ctx, md, lineage.TokenLabelPrefix+lineage.TokenLabel(client.ObjectKeyFromObject(md)))
	if err != nil || !shared {
		return secrets, err
	}
	return slices.DeleteFunc(secrets, unowned), nil
}

// longestLived chooses the token that lives longest, and of such the first by name, so that
// the choice stays; several are tolerated.
func longestLived(secrets []corev1.Secret, now time.Time) (Bootstrap, bool) {
	var out Bootstrap
	for i := range secrets {
		candidate := &secrets[i]
		id := string(candidate.Data[bootstrapapi.BootstrapTokenIDKey])
		secret := string(candidate.Data[bootstrapapi.BootstrapTokenSecretKey])
		if candidate.Type != bootstrapapi.SecretTypeBootstrapToken || id == "" || secret == "" || !candidate.DeletionTimestamp.IsZero() {
			continue
		}
		token := Bootstrap{Value: id + "." + secret, Secret: candidate}
		if end, ok := candidate.Data[bootstrapapi.BootstrapTokenExpirationKey]; ok {
			at, err := time.Parse(time.RFC3339, string(end))
			if err != nil || at.Sub(now) < tooOld {
				continue
			}
			token.Expires = at
		}
		if out.Secret == nil || livesLonger(token, out) {
			out = token
		}
	}
	return out, out.Secret != nil
}

// LongestLived returns the bootstrap token that a pool would have of those given, nil for
// none.
func LongestLived(secrets []corev1.Secret, now time.Time) *corev1.Secret {
	t, _ := longestLived(secrets, now)
	return t.Secret
}

func livesLonger(a, b Bootstrap) bool {
	if a.Expires.Equal(b.Expires) {
		return a.Secret.Name < b.Secret.Name
	}
	return a.Expires.IsZero() || !b.Expires.IsZero() && a.Expires.After(b.Expires)
}

// New generates a token for a pool, with the Secret that registers it.
func New(random io.Reader, md *cluster.MachineDeployment, now time.Time) (Bootstrap, error) {
	id, err := randomText(random, 6)
	if err != nil {
		return Bootstrap{}, err
	}
	secret, err := randomText(random, 16)
	if err != nil {
		return Bootstrap{}, err
	}
	expires := now.Add(Life)
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey:          []byte(id),
		bootstrapapi.BootstrapTokenSecretKey:      []byte(secret),
		bootstrapapi.BootstrapTokenExpirationKey:  Expiration(expires),
		bootstrapapi.BootstrapTokenDescriptionKey: []byte("bootstrap token for " + lineage.NamespacedKeyOrName(client.ObjectKeyFromObject(md))),
	}
	for key, value := range rights {
		data[key] = []byte(value)
	}
	return Bootstrap{
		Value: id + "." + secret, Expires: expires, Create: true,
		Secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: bootstrapapi.BootstrapTokenSecretPrefix + id, Namespace: metav1.NamespaceSystem,
				Labels:      map[string]string{api.LabelTokenPool: lineage.TokenLabel(client.ObjectKeyFromObject(md))},
				Annotations: map[string]string{api.AnnotationPool: client.ObjectKeyFromObject(md).String(), api.AnnotationPoolUID: string(md.UID)},
			},
			Type: bootstrapapi.SecretTypeBootstrapToken,
			Data: data,
		},
	}, nil
}

// Expiration is a time as the Secret of a bootstrap token has it.
func Expiration(t time.Time) []byte { return []byte(t.UTC().Format(time.RFC3339)) }

// randomText returns n characters of alphabet, each equally likely.
func randomText(random io.Reader, n int) (string, error) {
	var out strings.Builder
	// The largest multiple of the alphabet's length in a byte: what is above it
	// would make the first letters likelier.
	limit := byte(256 / len(alphabet) * len(alphabet))
	for buf := make([]byte, 1); out.Len() < n; {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", fmt.Errorf("reading random bytes for a token: %w", err)
		}
		if buf[0] < limit {
			out.WriteByte(alphabet[int(buf[0])%len(alphabet)])
		}
	}
	return out.String(), nil
}

// serviceAccountToken reads the token of --bootstrap-token-service-account-name, from the first of
// the Secrets that the ServiceAccount lists.
func (k Tokens) serviceAccountToken(ctx context.Context) (Bootstrap, error) {
	var sa corev1.ServiceAccount
	err := k.Live.Get(ctx, k.ServiceAccount, &sa)
	if apierrors.IsNotFound(err) {
		return Bootstrap{}, fault.Await("ServiceAccount %s of --bootstrap-token-service-account-name does not exist: create it", k.ServiceAccount)
	}
	if err != nil {
		return Bootstrap{}, fmt.Errorf("reading ServiceAccount %s: %w", k.ServiceAccount, err)
	}
	for _, ref := range sa.Secrets {
		var secret corev1.Secret
		key := types.NamespacedName{Namespace: sa.Namespace, Name: ref.Name}
		if err := k.Live.Get(ctx, key, &secret); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return Bootstrap{}, fmt.Errorf("reading Secret %s: %w", key, err)
		}
		if token := string(secret.Data[corev1.ServiceAccountTokenKey]); secret.Type == corev1.SecretTypeServiceAccountToken && token != "" {
			return Bootstrap{Value: token, Poll: true}, nil
		}
	}
	return Bootstrap{}, fault.Await("ServiceAccount %s of --bootstrap-token-service-account-name lists no Secret of type %s with a token: add one", k.ServiceAccount, corev1.SecretTypeServiceAccountToken)
}
