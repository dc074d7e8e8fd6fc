package pools

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// The life of a bootstrap token (contract: section 8.3).
const (
	tokenLife  = time.Hour
	tokenRenew = 30 * time.Minute // left when the end is moved
	// tokenTooOld is when a token that was not renewed in time is given up: a
	// machine that boots with it now would not join.
	tokenTooOld = time.Minute
	// tokenGroups are the groups of a kubelet that has not joined yet.
	tokenGroups = "system:bootstrappers:machine-controller:default-node-token"
	// tokenAlphabet has no vowels, so that a token spells nothing.
	tokenAlphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// tokenRights are the keys of a bootstrap token that say what it is good for.
var tokenRights = map[string]string{
	bootstrapapi.BootstrapTokenUsageAuthentication: "true",
	bootstrapapi.BootstrapTokenUsageSigningKey:     "true",
	bootstrapapi.BootstrapTokenExtraGroupsKey:      tokenGroups,
}

// bootstrapToken is the token with which a pool's kubelets join.
type bootstrapToken struct {
	value   string
	expires time.Time      // zero when it does not end
	secret  *corev1.Secret // as it should be; nil where the token is a ServiceAccount's
	create  bool           // secret does not exist yet
	renew   bool           // secret exists and its end has to be moved
	poll    bool           // nobody tells when it changes
	edited  []string       // keys that somebody edited, and renew puts back
}

// liveToken returns the pool's token with time left to live, moving its end where
// that is due. Where there is none it makes one up, which apply creates.
func (r *Reconciler) liveToken(ctx context.Context, md *cluster.MachineDeployment) (bootstrapToken, error) {
	t, err := r.bootstrapToken(ctx, md)
	if err != nil || !t.renew {
		return t, err
	}
	if err := r.Worker.Update(ctx, t.secret, client.FieldOwner(api.FieldManager)); err != nil {
		return t, fault.Raced(fmt.Errorf("renewing bootstrap token %s: %w", t.secret.Name, err))
	}
	return t, nil
}

// bootstrapToken finds the pool's token. The cache may be behind, and a token too
// many cannot be told from a good one, so before one is made up the API server is
// asked itself, but for a pool without our finalizer, for which nobody made one.
func (r *Reconciler) bootstrapToken(ctx context.Context, md *cluster.MachineDeployment) (bootstrapToken, error) {
	now := r.Clock.Now()
	if r.TokenServiceAccount.Name != "" {
		return r.serviceAccountToken(ctx)
	}
	from := []readers{r.cached(), r.live()}
	if !controllerutil.ContainsFinalizer(md, api.FinalizerPool) {
		from = from[:1]
	}
	for _, from := range from {
		secrets, err := from.tokens(ctx, md)
		if err != nil {
			return bootstrapToken{}, err
		}
		if secrets, err = r.withoutShared(ctx, md, secrets); err != nil {
			return bootstrapToken{}, err
		}
		t, ok := best(secrets, now)
		if !ok {
			continue
		}
		t.secret = t.secret.DeepCopy()
		if left := t.expires.Sub(now); !t.expires.IsZero() && left < tokenRenew {
			t.renew, t.expires = true, now.Add(tokenLife)
			t.secret.Data[bootstrapapi.BootstrapTokenExpirationKey] = expiration(t.expires)
		}
		for key, want := range tokenRights {
			if string(t.secret.Data[key]) == want {
				continue
			}
			t.renew, t.secret.Data[key] = true, []byte(want)
			if ownerOf(t.secret) != "" {
				t.edited = append(t.edited, key)
			}
		}
		if ownerOf(t.secret) == "" { // the reference's: owned, it goes with the pool
			t.renew = true
			metav1.SetMetaDataAnnotation(&t.secret.ObjectMeta, api.AnnotationPool, poolKey(md))
			metav1.SetMetaDataAnnotation(&t.secret.ObjectMeta, api.AnnotationPoolUID, string(md.UID))
		}
		return t, nil
	}
	return newToken(r.Random, md, now)
}

// tokens lists the pool's token Secrets.
func (from readers) tokens(ctx context.Context, md *cluster.MachineDeployment) ([]corev1.Secret, error) {
	var list corev1.SecretList
	var ofPool client.ListOption = client.MatchingLabels{api.LabelTokenPool: lineage.TokenLabel(keyOf(md))}
	if from.indexed { // of ten thousand, not one by one
		ofPool = client.MatchingFields{tokenIndex: lineage.TokenLabel(keyOf(md))}
	}
	err := from.worker.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), ofPool)
	if err != nil {
		return nil, fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	// The label is ambiguous: "a-b" of "c" and "b" of "c-a" share it.
	return slices.DeleteFunc(list.Items, func(s corev1.Secret) bool {
		owner := ownerOf(&s)
		return owner != "" && owner != poolKey(md)
	}), nil
}

// withoutShared leaves out tokens of the reference if another pool has the same label: they
// may be that one's, and would go with this pool.
func (r *Reconciler) withoutShared(ctx context.Context, md *cluster.MachineDeployment, secrets []corev1.Secret) ([]corev1.Secret, error) {
	unowned := func(s corev1.Secret) bool { return ownerOf(&s) == "" }
	if !slices.ContainsFunc(secrets, unowned) {
		return secrets, nil
	}
	rivals, err := r.sharing(ctx, md)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(rivals, func(other rival) bool {
		return slices.Contains(other.names, lineage.TokenLabelPrefix+lineage.TokenLabel(keyOf(md)))
	}) {
		return secrets, nil
	}
	return slices.DeleteFunc(secrets, unowned), nil
}

// best chooses the token that lives longest, and of such the first by name, so that
// the choice stays; several are tolerated.
func best(secrets []corev1.Secret, now time.Time) (bootstrapToken, bool) {
	var out bootstrapToken
	for i := range secrets {
		s := &secrets[i]
		id, secret := string(s.Data[bootstrapapi.BootstrapTokenIDKey]), string(s.Data[bootstrapapi.BootstrapTokenSecretKey])
		if s.Type != bootstrapapi.SecretTypeBootstrapToken || id == "" || secret == "" || !s.DeletionTimestamp.IsZero() {
			continue
		}
		t := bootstrapToken{value: id + "." + secret, secret: s}
		if end, ok := s.Data[bootstrapapi.BootstrapTokenExpirationKey]; ok {
			at, err := time.Parse(time.RFC3339, string(end))
			if err != nil || at.Sub(now) < tokenTooOld {
				continue
			}
			t.expires = at
		}
		if out.secret == nil || livesLonger(t, out) {
			out = t
		}
	}
	return out, out.secret != nil
}

// LongestToken returns the bootstrap token that a pool would have of those given, nil for
// none.
func LongestToken(secrets []corev1.Secret, now time.Time) *corev1.Secret {
	t, _ := best(secrets, now)
	return t.secret
}

func livesLonger(a, b bootstrapToken) bool {
	if a.expires.Equal(b.expires) {
		return a.secret.Name < b.secret.Name
	}
	return a.expires.IsZero() || !b.expires.IsZero() && a.expires.After(b.expires)
}

func newToken(random io.Reader, md *cluster.MachineDeployment, now time.Time) (bootstrapToken, error) {
	id, err := randomText(random, 6)
	if err != nil {
		return bootstrapToken{}, err
	}
	secret, err := randomText(random, 16)
	if err != nil {
		return bootstrapToken{}, err
	}
	expires := now.Add(tokenLife)
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey:          []byte(id),
		bootstrapapi.BootstrapTokenSecretKey:      []byte(secret),
		bootstrapapi.BootstrapTokenExpirationKey:  expiration(expires),
		bootstrapapi.BootstrapTokenDescriptionKey: []byte("bootstrap token for " + lineage.ContractKey(keyOf(md))),
	}
	for key, value := range tokenRights {
		data[key] = []byte(value)
	}
	return bootstrapToken{
		value: id + "." + secret, expires: expires, create: true,
		secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: bootstrapapi.BootstrapTokenSecretPrefix + id, Namespace: metav1.NamespaceSystem,
				Labels:      map[string]string{api.LabelTokenPool: lineage.TokenLabel(keyOf(md))},
				Annotations: map[string]string{api.AnnotationPool: poolKey(md), api.AnnotationPoolUID: string(md.UID)},
			},
			Type: bootstrapapi.SecretTypeBootstrapToken,
			Data: data,
		},
	}, nil
}

func expiration(t time.Time) []byte { return []byte(t.UTC().Format(time.RFC3339)) }

// randomText returns n characters of tokenAlphabet, each equally likely.
func randomText(random io.Reader, n int) (string, error) {
	var out strings.Builder
	// The largest multiple of the alphabet's length in a byte: what is above it
	// would make the first letters likelier.
	limit := byte(256 / len(tokenAlphabet) * len(tokenAlphabet))
	for buf := make([]byte, 1); out.Len() < n; {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", fmt.Errorf("reading random bytes for a token: %w", err)
		}
		if buf[0] < limit {
			out.WriteByte(tokenAlphabet[int(buf[0])%len(tokenAlphabet)])
		}
	}
	return out.String(), nil
}

// serviceAccountToken reads the token of --bootstrap-token-service-account-name
// (contract: section 8.3).
func (r *Reconciler) serviceAccountToken(ctx context.Context) (bootstrapToken, error) {
	var sa corev1.ServiceAccount
	err := r.Worker.Live.Get(ctx, r.TokenServiceAccount, &sa)
	if apierrors.IsNotFound(err) {
		return bootstrapToken{}, fault.Await("ServiceAccount %s of --bootstrap-token-service-account-name does not exist: create it", r.TokenServiceAccount)
	}
	if err != nil {
		return bootstrapToken{}, fmt.Errorf("reading ServiceAccount %s: %w", r.TokenServiceAccount, err)
	}
	for _, ref := range sa.Secrets {
		var secret corev1.Secret
		key := types.NamespacedName{Namespace: sa.Namespace, Name: ref.Name}
		if err := r.Worker.Live.Get(ctx, key, &secret); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return bootstrapToken{}, fmt.Errorf("reading Secret %s: %w", key, err)
		}
		if token := string(secret.Data[corev1.ServiceAccountTokenKey]); secret.Type == corev1.SecretTypeServiceAccountToken && token != "" {
			return bootstrapToken{value: token, poll: true}, nil
		}
	}
	return bootstrapToken{}, fault.Await("ServiceAccount %s of --bootstrap-token-service-account-name lists no Secret of type %s with a token: add one", r.TokenServiceAccount, corev1.SecretTypeServiceAccountToken)
}
