package pools

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// edgeScriptKey is the data key of a pool's script (contract: section 8.6).
const edgeScriptKey = "fetch-bootstrap-script"

// edgeName is the Secret with the script that makes a machine fetch its first document.
func edgeName(md *cluster.MachineDeployment) string {
	return "edge-provider-script-" + md.Name + "-" + md.Namespace
}

// edgePlan is what happens to a pool's script; nil is "as it is".
type edgePlan struct{ write, remove *corev1.Secret }

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
	if ca := seen.endpoint.cluster.CertificateAuthorityData; len(ca) > 0 {
		in.Settings.KubernetesCACert = string(ca)
	}
	script := []byte(in.EdgeScript())
	annotations := map[string]string{api.AnnotationPool: poolKey(seen.md), api.AnnotationPoolUID: string(seen.md.UID)}
	if have != nil && string(have.Data[edgeScriptKey]) == dataDigest(script) && sameKeys(have.Annotations, annotations, api.AnnotationPool, api.AnnotationPoolUID) {
		return edgePlan{}
	}
	return edgePlan{write: secretFor(edgeName(seen.md), have, annotations, map[string][]byte{edgeScriptKey: script})}
}

// writeEdge comes before the documents: until those are there, the script tries again.
func (r *Reconciler) writeEdge(ctx context.Context, p edgePlan) error {
	if p.write == nil {
		return nil
	}
	return r.writeSecret(ctx, p.write)
}

// removeEdge comes last: until another provider's documents stand, machines boot by the script.
func (r *Reconciler) removeEdge(ctx context.Context, p edgePlan) error {
	if p.remove == nil {
		return nil
	}
	if err := client.IgnoreNotFound(r.Worker.Delete(ctx, p.remove, client.Preconditions{UID: &p.remove.UID})); err != nil {
		return raced(fmt.Errorf("deleting Secret %s: %w", client.ObjectKeyFromObject(p.remove), err))
	}
	return nil
}
