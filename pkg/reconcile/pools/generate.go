package pools

import "github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"

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
