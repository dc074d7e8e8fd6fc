package pools

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// edgeScriptKey is the data key of a pool's script (contract: section 8.6).
const edgeScriptKey = "fetch-bootstrap-script"

// edgeName is the Secret with the script that makes a machine fetch its first document.
func edgeName(md *cluster.MachineDeployment) string {
	return namesOf(md).EdgeScript
}

// edgePlan is what happens to a pool's script; nil is "as it is".
type edgePlan struct {
	write, remove *corev1.Secret // the script comes before the documents: until those are there, it tries again
	lacksToken    bool           // it has to be written with a token that is not known
	renew         time.Time      // when the next token is due, zero for never
}

// decideEdge compares the script with the one that belongs to a generation: for
// the provider edge only, with the server, the CA and the token as they are now.
func (r *Reconciler) decideEdge(seen *observed, pool render.Pool) edgePlan {
	have := seen.objects.edge
	if !pool.HasEdgeScript() {
		if have == nil || ownerOf(have) != poolKey(seen.md) {
			return edgePlan{}
		}
		return edgePlan{remove: have}
	}
	in := render.Input{Pool: pool, Cluster: seen.values}
	in.Settings.KubernetesCACert = r.Settings.KubernetesCACert
	if ca := seen.endpoint.Cluster.CertificateAuthorityData; len(ca) > 0 {
		in.Settings.KubernetesCACert = string(ca)
	}
	in.Cluster.APIServerToken = ""
	withoutToken := []byte(in.EdgeScript())
	annotations := func(t token.Node) map[string]string {
		out := map[string]string{
			api.AnnotationPool: poolKey(seen.md), api.AnnotationPoolUID: string(seen.md.UID),
			api.AnnotationTokensDigest: keyedDigest(seen.key, t.Identity(), withoutToken),
		}
		t.Annotate(out)
		return out
	}
	bound, stays := seen.standingToken(have)
	if !stays {
		bound = seen.node
	}
	if want := annotations(bound); have != nil && !edited(have, edgeScriptKey) &&
		sameKeys(have.Annotations, want, api.AnnotationPool, api.AnnotationPoolUID, api.AnnotationTokensDigest) {
		return edgePlan{renew: bound.Renew}
	}
	if seen.node.Value == "" {
		return edgePlan{lacksToken: true}
	}
	in.Cluster.APIServerToken = seen.node.Value
	script, want := []byte(in.EdgeScript()), annotations(seen.node)
	want[api.AnnotationDataDigest] = dataDigest(script)
	return edgePlan{write: secretFor(edgeName(seen.md), have, want, map[string][]byte{edgeScriptKey: script}), renew: seen.node.Renew}
}
