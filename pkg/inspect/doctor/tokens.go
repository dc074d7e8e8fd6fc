package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const checkTokens = "tokens"

const renewRemedy = "see the checks lease and pools: a running controller renews it"

// examineTokens reports tokens that have expired, by the API server's clock. It names the pool of
// a token and never the token.
func (w *examination) examineTokens(ctx context.Context) {
	s := w.readInventory(ctx, checkTokens)
	if s == nil {
		return
	}
	before := len(w.Findings)
	w.reportExpiredFetchTokens(s)
	w.examineBootstrapTokens(ctx, s)
	if len(w.Findings) == before {
		w.report(OK, checkTokens, w.Worker, "no token of a pool has expired", "")
	}
}

// reportExpiredFetchTokens checks the tokens with which machines fetch their Secrets, by the annotation
// of the Secret that contains the token.
func (w *examination) reportExpiredFetchTokens(s *inventory) {
	ended := map[string]time.Time{} // by pool
	for _, secret := range s.secrets {
		at, err := time.Parse(time.RFC3339, secret.Annotations[api.AnnotationCredentialsExpireAt])
		if err == nil && !w.apiServerTime().Before(at) {
			ended[secret.Annotations[api.AnnotationPool]] = at
		}
	}
	names := slices.Sorted(maps.Keys(ended))
	for i, pool := range names {
		if i == maxListed {
			break
		}
		w.report(Problem, checkTokens, w.Worker, fmt.Sprintf("the token with which machines of %s fetch their Secrets expired at %s: new machines get no configuration", pool, ended[pool].UTC().Format(time.RFC3339)),
			renewRemedy)
	}
	w.addRemaining(checkTokens, len(names), "pools have an expired token")
}

// examineBootstrapTokens checks the tokens with which kubelets join. kube-controller-manager
// deletes expired ones, so the usual sign is a pool without any.
func (w *examination) examineBootstrapTokens(ctx context.Context, s *inventory) {
	var list corev1.SecretList
	err := w.Worker.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{api.LabelTokenPool})
	if err != nil {
		w.addUnreadable(checkTokens, w.Worker, "the Secrets with bootstrap tokens in namespace "+metav1.NamespaceSystem, err)
		return
	}
	last := map[string]time.Time{} // the latest expiry of a pool's tokens
	for i := range list.Items {
		pool := list.Items[i].Labels[api.LabelTokenPool]
		at, err := time.Parse(time.RFC3339, string(list.Items[i].Data[bootstrapapi.BootstrapTokenExpirationKey]))
		if err == nil && at.After(last[pool]) {
			last[pool] = at
		}
	}
	var none []string
	all := 0
	for i := range s.pools {
		md := &s.pools[i]
		key := client.ObjectKeyFromObject(md)
		if s.configs[lineage.NamesOf(key).Config] == nil {
			continue // reported as a pool without a configuration
		}
		all++
		if !w.apiServerTime().Before(last[lineage.TokenLabel(key)]) {
			none = append(none, key.String())
		}
	}
	w.addPoolsWithoutToken(none, all)
}

// addPoolsWithoutToken reports pools without a bootstrap token. If no pool has one, the controller may
// use another token.
func (w *examination) addPoolsWithoutToken(none []string, all int) {
	f := Finding{Check: checkTokens, Level: Problem, Cluster: w.clusterLabel(w.Worker), Remedy: renewRemedy}
	switch {
	case len(none) == 0:
		return
	case len(none) == all:
		f.Level = Warning
		f.Found = "no pool has a valid bootstrap token: new machines do not join, unless the controller has --bootstrap-token-service-account-name"
	default:
		f.Found = joinSome(none) + " has no valid bootstrap token: new machines do not join"
	}
	w.addFinding(f)
}
