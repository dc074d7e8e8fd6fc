package pools

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/secretdigest"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// edgeScriptKey is the data key of a pool's script, from which users of the provider edge read it.
const edgeScriptKey = "fetch-bootstrap-script"

// edgePlan is the change of a pool's script; nil fields mean no change.
type edgePlan struct {
	write, remove *corev1.Secret // the script is written before the documents: until those exist, it retries
	lacksToken    bool           // it has to be written with a token that is not known
	renew         time.Time      // when the next token is due, zero for never
}

// planEdge compares the script with the one of a generation. It applies to the provider edge
// only, with the current server, CA and token.
func (e planner) planEdge(seen *observed, pool render.Pool) edgePlan {
	have := seen.objects.edge
	if !pool.HasEdgeScript() {
		if have == nil || lineage.PoolOf(have) != poolKey(seen.md) {
			return edgePlan{}
		}
		return edgePlan{remove: have}
	}
	input := render.Input{Pool: pool, Cluster: seen.values}
	input.Settings.KubernetesCACert = e.ca
	if ca := seen.endpoint.CertificateAuthorityData; len(ca) > 0 {
		input.Settings.KubernetesCACert = string(ca)
	}
	// The digest must not change with each token: tokens are compared by their identity.
	input.Cluster.APIServerToken = ""
	withoutToken := []byte(input.EdgeScript())
	annotations := func(nodeToken token.Node) map[string]string {
		out := poolAnnotations(seen.md)
		out[api.AnnotationTokensDigest] = secretdigest.Of(seen.key, nodeToken.DigestInput(), withoutToken)
		nodeToken.SetExpiryAnnotations(out)
		return out
	}
	bound, isCurrent := seen.currentNodeToken(have)
	if !isCurrent {
		bound = seen.nodeToken
	}
	if want := annotations(bound); have != nil && !isEdited(have, edgeScriptKey) &&
		sameKeys(have.Annotations, want, api.AnnotationPool, api.AnnotationPoolUID, api.AnnotationTokensDigest) {
		return edgePlan{renew: bound.Renew}
	}
	if seen.nodeToken.Value == "" {
		return edgePlan{lacksToken: true}
	}
	input.Cluster.APIServerToken = seen.nodeToken.Value
	script, want := []byte(input.EdgeScript()), annotations(seen.nodeToken)
	want[api.AnnotationDataDigest] = lineage.DataDigest(script)
	return edgePlan{write: nextSecret(namesOf(seen.md).EdgeScript, have, want, map[string][]byte{edgeScriptKey: script}), renew: seen.nodeToken.Renew}
}
