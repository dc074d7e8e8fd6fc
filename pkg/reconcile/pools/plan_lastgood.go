package pools

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// planLastGood plans to maintain the existing generation if the pool cannot have what it requests:
// the same content with current tokens, under the revision it was made for. Without a rejection
// the pool is suspended, and the documents follow the pool's revision.
func (e planner) planLastGood(seen *observed, rejection error) (plan, error) {
	if seen.lastGood == nil {
		return plan{lacks: lacksLastGood, rejection: rejection}, nil
	}
	if seen.hasNothingToBootFrom() {
		return plan{}, rejection
	}
	p, err := e.planFromRecord(seen, rejection)
	if err != nil {
		return e.planUnrenderable(seen, rejection, err), nil
	}
	p.rejection = rejection
	return p, nil
}

// planFromRecord compares the existing objects with the generation from which they were made. An
// error says that this generation cannot be rendered again.
func (e planner) planFromRecord(seen *observed, rejection error) (plan, error) {
	good := seen.lastGood
	if good.err != nil {
		return plan{}, good.err
	}
	revision := seen.objects.revisionFor(good.record.Digests.Input)
	if rejection == nil {
		revision = revisionOf(seen)
	}
	gen, err := digestGeneration(seen, good.input, revision)
	if err != nil {
		return plan{}, err
	}
	return e.planGeneration(seen, gen)
}

// planUnrenderable plans for documents that cannot be rendered again: they remain, and only a token
// that is due is replaced.
func (e planner) planUnrenderable(seen *observed, rejection, why error) plan {
	rec := seen.lastGood.record
	p := planTokenAndKubeconfig(seen)
	if rec.Object != "" {
		p.edge, p.access = e.planEdge(seen, rec.Pool), planAccess(seen, rec.Pool)
		p.nextRun = earliestNonZeroTime(p.access.NextRun, p.edge.renew)
	}
	if p.edge.lacksToken {
		return plan{lacks: lacksNodeToken}
	}
	p.rejection, p.serving = rejection, rec
	if rec.Object == "" {
		p.serving = recordFromDocuments(seen.objects)
	}
	var readError *fault.ReadError
	// A failed read can succeed in the next run; any other error lasts until a user acts.
	if errors.As(why, &readError) {
		p.readError = why
	} else {
		p.unrenewed = why
	}
	return planTokenReplacement(seen, p)
}

// planTokenReplacement plans to replace a token that is due in documents that cannot be rendered
// again because their input is deleted. It finds the token by the claims that it contains, and only
// if the document contains it verbatim: a profile that encodes the token has to be fixed before the
// token expires. If it is not found, p.unrenewed names the Secret and the time; after a failed
// read, p.unrenewed is nil and the next run tries again. If something is not observed yet, it
// returns an empty plan that names it in lacks.
func planTokenReplacement(seen *observed, p plan) plan {
	for _, d := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{seen.objects.provisioning, &p.provisioning}, {seen.objects.bootstrap, &p.bootstrap}} {
		if d.have == nil || lineage.AnnotatedTime(d.have.Annotations, api.AnnotationCredentialsExpireAt).IsZero() {
			continue // none, or one with the getter's token
		}
		if t, stays := seen.currentNodeToken(d.have); stays {
			p.nextRun = earliestNonZeroTime(p.nextRun, t.Renew)
			continue
		}
		if seen.nodeToken.Value == "" {
			return plan{lacks: lacksNodeToken}
		}
		if seen.documents == nil {
			return plan{lacks: lacksDocuments}
		}
		write := withReplacedToken(seen, seen.documents[d.have.Name])
		if write == nil && p.unrenewed == nil {
			continue // it is tried again
		}
		if write == nil {
			p.unrenewed = fmt.Errorf("%w; the token in Secret %s ends at %s", p.unrenewed, d.have.Name, d.have.Annotations[api.AnnotationCredentialsExpireAt])
			continue
		}
		d.into.write = write
		p.nextRun = earliestNonZeroTime(p.nextRun, seen.nodeToken.Renew)
	}
	return p
}

// withReplacedToken returns a document with another token, nil if the present one is not found in
// it. It has no tokens digest, so that it is rendered as soon as that is possible.
func withReplacedToken(seen *observed, live *corev1.Secret) *corev1.Secret {
	document, found := token.ReplaceAccountTokens(live.Data[api.UserDataKey], access.Name(seen.md), seen.nodeToken.Value)
	if !found {
		return nil
	}
	annotations := maps.Clone(live.Annotations)
	for _, key := range []string{api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt, api.AnnotationCredentialsRenewAt} {
		delete(annotations, key)
	}
	seen.nodeToken.SetExpiryAnnotations(annotations)
	annotations[api.AnnotationDataDigest] = dataDigest(document)
	return nextSecret(live.Name, live, annotations, map[string][]byte{api.UserDataKey: document})
}
