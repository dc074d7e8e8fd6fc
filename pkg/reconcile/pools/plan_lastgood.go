package pools

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
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
	planned, err := e.planFromRecord(seen, rejection)
	if err != nil {
		return e.planUnrenderable(seen, rejection, err), nil
	}
	planned.rejection = rejection
	return planned, nil
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
	target, err := digestGeneration(seen, good.input, revision)
	if err != nil {
		return plan{}, err
	}
	return e.planGeneration(seen, target)
}

// planUnrenderable plans for documents that cannot be rendered again: they remain, and only a token
// that is due is replaced.
func (e planner) planUnrenderable(seen *observed, rejection, why error) plan {
	rec := seen.lastGood.record
	planned := planTokenAndKubeconfig(seen)
	if rec.Object != "" {
		planned.edge, planned.access = e.planEdge(seen, rec.Pool), planAccess(seen, rec.Pool)
		planned.nextRun = earliestNonZeroTime(planned.access.NextRun, planned.edge.renew)
	}
	if planned.edge.lacksToken {
		return plan{lacks: lacksNodeToken}
	}
	planned.rejection, planned.serving = rejection, rec
	if rec.Object == "" {
		planned.serving = recordFromDocuments(seen.objects)
	}
	// A failed read can succeed in the next run; any other error lasts until a user acts.
	if _, ok := errors.AsType[*fault.ReadError](why); ok {
		planned.readError = why
	} else {
		planned.unrenewed = why
	}
	return planTokenReplacement(seen, planned)
}

// planTokenReplacement plans to replace a token that is due in documents that cannot be rendered
// again because their input is deleted. It finds the token by the claims that it contains, and only
// if the document contains it verbatim: a profile that encodes the token has to be fixed before the
// token expires. If it is not found, planned.unrenewed names the Secret and the time; after a failed
// read, planned.unrenewed is nil and the next run tries again. If something is not observed yet, it
// returns an empty plan that names it in lacks.
func planTokenReplacement(seen *observed, planned plan) plan {
	for _, document := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{seen.objects.provisioning, &planned.provisioning}, {seen.objects.bootstrap, &planned.bootstrap}} {
		if document.have == nil || lineage.AnnotatedTime(document.have.Annotations, api.AnnotationCredentialsExpireAt).IsZero() {
			continue // none, or one with the getter's token
		}
		if current, isCurrent := seen.currentNodeToken(document.have); isCurrent {
			planned.nextRun = earliestNonZeroTime(planned.nextRun, current.Renew)
			continue
		}
		if seen.nodeToken.Value == "" {
			return plan{lacks: lacksNodeToken}
		}
		if seen.documents == nil {
			return plan{lacks: lacksDocuments}
		}
		write := documentWithRenewedToken(seen, seen.documents[document.have.Name])
		if write == nil && planned.unrenewed == nil {
			continue // it is tried again
		}
		if write == nil {
			planned.unrenewed = fmt.Errorf("%w; the token in Secret %s ends at %s", planned.unrenewed, document.have.Name, document.have.Annotations[api.AnnotationCredentialsExpireAt])
			continue
		}
		document.into.write = write
		planned.nextRun = earliestNonZeroTime(planned.nextRun, seen.nodeToken.Renew)
	}
	return planned
}

// documentWithRenewedToken returns a document with another token, nil if the present one is not found in
// it.
func documentWithRenewedToken(seen *observed, live *corev1.Secret) *corev1.Secret {
	document, found := token.ReplaceAccountTokens(live.Data[api.UserDataKey], lineage.AccessName(keyOf(seen.md)), seen.nodeToken.Value)
	if !found {
		return nil
	}
	return userDataSecret(live.Name, live, document, annotationsWithRenewedToken(live.Annotations, seen.nodeToken))
}

// isSuspended reports whether a pool retains its configuration until its user resumes it.
func isSuspended(md *cluster.MachineDeployment) (bool, error) {
	suspended, err := selection.Suspended(md.Annotations)
	if err != nil {
		return false, fault.Reject("%w", err)
	}
	return suspended, nil
}

// planSuspended plans to maintain what a pool has while it is suspended.
func (e planner) planSuspended(seen *observed) (plan, error) {
	planned, err := e.planLastGood(seen, nil)
	if err != nil || planned.lacks != lacksNothing {
		return planned, err
	}
	if planned.unrenewed != nil {
		planned.rejection = fault.Reject("the pool is suspended by annotation %s, and what it has cannot be rendered again", api.AnnotationSuspend)
	}
	if planned.unrenewed != nil || planned.readError != nil {
		planRevisionAnnotations(seen, &planned)
	}
	return planned, nil
}

// revisionOf is the revision that machine-controller gave the pool's template.
func revisionOf(seen *observed) string { return seen.md.Annotations[api.AnnotationMDRevision] }
