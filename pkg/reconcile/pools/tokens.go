package pools

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// generateMissing generates the bootstrap token of a pool and the key of digests, if observe found
// none: a plan contains both. apply stores them.
func (r *Reconciler) generateMissing(seen *observed) (err error) {
	if seen.bootstrapToken.Create {
		if seen.bootstrapToken, err = token.New(r.Random, seen.md, seen.now); err != nil {
			return err
		}
		if err = seen.addBootstrapToken(); err != nil {
			return err
		}
	}
	if seen.key == nil {
		seen.key, seen.keyStored, err = r.key.Generate(r.Random)
	}
	return err
}

// findNodeToken finds the token for documents that are written now. It never requests one:
// obtainNodeToken does, if a document needs it.
func (r *Reconciler) findNodeToken(ctx context.Context, seen *observed) (token.Node, error) {
	if r.NodeTokenTTL == 0 || seen.objects.hasOSMDocuments() {
		return r.newTokens().GetterToken(ctx)
	}
	account := seen.objects.access.AccountOf(seen.md)
	if account == nil {
		return token.Node{}, nil
	}
	if cached := r.cache.get(seen.md).nodeToken; cached.Account == account.UID && cached.IsCurrent(seen.now) {
		return cached, nil
	}
	return token.Node{Account: account.UID}, nil
}

// obtainNodeToken requests a token that is bound to the pool, and returns what was observed with it. It
// writes before apply, because documents are rendered with the token, and only a plan shows that one is
// to be written. It creates the token's account if there is none. For a new pool it begins to write the
// permission to read some Secrets: the API server needs longest for a Role, so that does not wait
// for the token. apply waits for it.
func (r *Reconciler) obtainNodeToken(ctx context.Context, seen *observed, secrets []string) (*observed, error) {
	next := *seen
	writer := r.newWriter().access()
	if secrets != nil && seen.objects.access == (access.Objects{}) {
		grant := seen.objects.access.PlanGrant(seen.md, !seen.reportsForbidden, secrets...)
		next.granted = &granted{secrets, startWrite(func() error { return writer.Grant(ctx, grant) })}
	}
	account, err := writer.EnsureAccount(ctx, seen.md, seen.objects.access)
	if err != nil {
		return &next, err
	}
	next.objects.access.Account = account
	bound, err := r.newTokens().Request(ctx, account)
	if err != nil {
		return &next, err
	}
	r.cache.update(seen.md, func(cached *cachedPool) { cached.nodeToken = bound })
	next.nodeToken = bound
	next.values.APIServerToken, next.desired.Cluster.APIServerToken = bound.Value, bound.Value
	if seen.lastGood != nil {
		lastGood := *seen.lastGood
		lastGood.input.Cluster.APIServerToken = bound.Value
		next.lastGood = &lastGood
	}
	return &next, nil
}

// granted are permissions of a pool's token that are written while the token is requested.
type granted struct {
	secrets []string // that the token may read
	wait    func() error
}

// waitGranted waits until they are written.
func (seen *observed) waitGranted() error {
	if seen.granted == nil {
		return nil
	}
	return seen.granted.wait()
}

// currentNodeToken is the bound token that a Secret carries, if it is not due for renewal.
func (seen *observed) currentNodeToken(have *corev1.Secret) (token.Node, bool) {
	return token.ReusableFromSecret(have, seen.nodeToken.Account, seen.now)
}
