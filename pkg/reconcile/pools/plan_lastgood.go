package pools

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// planLastGood plans to keep what stands, when the pool cannot have what it asks for: the
// same content with current tokens, under the revision it was for. Without a refusal it is
// suspended, and follows the pool's revision.
func (e planner) planLastGood(seen *observed, refusal error) (plan, error) {
	if seen.lastGood == nil {
		return plan{lacks: lacksLastGood, refusal: refusal}, nil
	}
	if seen.hasNothing() {
		return plan{}, refusal
	}
	p, err := e.decideLastGood(seen, refusal)
	if err != nil {
		return e.planAsIs(seen, refusal, err), nil
	}
	p.refusal = refusal
	return p, nil
}

// decideLastGood compares what stands with the generation that it was made from. An error
// says that this cannot be rendered again.
func (e planner) decideLastGood(seen *observed, refusal error) (plan, error) {
	good := seen.lastGood
	if good.err != nil {
		return plan{}, good.err
	}
	revision := seen.objects.revisionFor(good.record.Digests.Input)
	if refusal == nil {
		revision = revisionOf(seen)
	}
	gen, err := generationOf(seen, good.input, revision)
	if err != nil {
		return plan{}, err
	}
	return e.decide(seen, gen)
}

// planAsIs plans for documents that cannot be rendered again.
func (e planner) planAsIs(seen *observed, refusal, why error) plan {
	rec := seen.lastGood.record
	p := decideTokens(seen)
	if rec.Object != "" {
		p.edge, p.access = e.decideEdge(seen, rec.Pool), decideAccess(seen, rec.Pool)
		p.look = earliest(p.access.Look, p.edge.renew)
	}
	if p.edge.lacksToken {
		return plan{lacks: lacksNodeToken}
	}
	p.refusal, p.serving = refusal, rec
	if rec.Object == "" {
		p.serving = servedBy(seen.objects)
	}
	var unread *fault.Unread
	if errors.As(why, &unread) {
		p.unread = why
	} else {
		p.unrenewed = why
	}
	return exchange(seen, p)
}

// exchange plans for documents that cannot be rendered again, because what they were
// made from is gone, that a token which is due gives way to another all the same. It
// is found by what it says of itself, and only where it stands as it is: a profile
// that encodes it has to be put right before it ends.
func exchange(seen *observed, p plan) plan {
	for _, d := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{seen.objects.provisioning, &p.provisioning}, {seen.objects.bootstrap, &p.bootstrap}} {
		if d.have == nil || lineage.AnnotatedTime(d.have.Annotations, api.AnnotationCredentialsExpireAt).IsZero() {
			continue // none, or one with the getter's token
		}
		if t, stays := seen.standingToken(d.have); stays {
			p.look = earliest(p.look, t.Renew)
			continue
		}
		if seen.node.Value == "" {
			return plan{lacks: lacksNodeToken}
		}
		if seen.documents == nil {
			return plan{lacks: lacksDocuments}
		}
		write := exchanged(seen, seen.documents[d.have.Name])
		if write == nil && p.unrenewed == nil {
			continue // it is tried again
		}
		if write == nil {
			p.unrenewed = fmt.Errorf("%w; the token in Secret %s ends at %s", p.unrenewed, d.have.Name, d.have.Annotations[api.AnnotationCredentialsExpireAt])
			continue
		}
		d.into.write = write
		p.look = earliest(p.look, seen.node.Renew)
	}
	return p
}

// exchanged is a document with another token, nil where the one in it is not found.
// It has no tokens digest, so that it is rendered as soon as that is possible.
func exchanged(seen *observed, live *corev1.Secret) *corev1.Secret {
	document, found := token.Replace(live.Data[api.UserDataKey], access.Name(seen.md), seen.node.Value)
	if !found {
		return nil
	}
	annotations := maps.Clone(live.Annotations)
	for _, key := range []string{api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt, api.AnnotationCredentialsRenewAt} {
		delete(annotations, key)
	}
	seen.node.Annotate(annotations)
	annotations[api.AnnotationDataDigest] = dataDigest(document)
	return secretFor(live.Name, live, annotations, map[string][]byte{api.UserDataKey: document})
}

// suspended reports whether the configuration of a pool is frozen.
func suspended(md *cluster.MachineDeployment) (bool, error) {
	frozen, err := selection.Suspended(md.Annotations)
	if err != nil {
		return false, fault.Refuse("%w", err)
	}
	return frozen, nil
}

// planSuspended plans to keep what a pool has while it is suspended.
func (e planner) planSuspended(seen *observed) (plan, error) {
	p, err := e.planLastGood(seen, nil)
	if err != nil || p.lacks != lacksNothing {
		return p, err
	}
	if p.unrenewed != nil {
		p.refusal = fault.Refuse("the pool is suspended by annotation %s, and what it has cannot be rendered again", api.AnnotationSuspend)
	}
	if p.unrenewed != nil || p.unread != nil {
		followRevision(seen, &p)
	}
	return p, nil
}

// followRevision lets documents that stay as they are follow the pool's revision.
func followRevision(seen *observed, p *plan) {
	revision, have := revisionOf(seen), seen.objects
	if have.osc != nil && have.osc.Annotations[api.AnnotationRevisionFor] != revision {
		p.oscMetadata = map[string]string{api.AnnotationRevisionFor: revision}
	}
	for _, d := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{have.provisioning, &p.provisioning}, {have.bootstrap, &p.bootstrap}} {
		switch {
		case d.into.write != nil: // with another token
			d.into.write.Annotations[api.AnnotationRevisionFor] = revision
		case d.have != nil && d.have.Annotations[api.AnnotationRevisionFor] != revision:
			d.into.patch = map[string]string{api.AnnotationRevisionFor: revision}
		}
	}
}

// revisionOf is the revision that machine-controller gave the pool's template.
func revisionOf(seen *observed) string { return seen.md.Annotations[api.AnnotationMDRevision] }
