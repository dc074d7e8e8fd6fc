package pools

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// bootPoll is the time between two reads of machines that boot while Secrets wait for them.
const bootPoll = 15 * time.Second

// hasOSMDocuments reports whether a pool has a document that OSM made.
func (o objects) hasOSMDocuments() bool { return takeover.HasOSMDocuments(o.provisioning, o.bootstrap) }

// mayTakeOver reports whether an object without an owner was made by OSM for this pool. If two
// pools have its name, the hash that OSM wrote identifies the pool.
func (seen *observed) mayTakeOver(obj client.Object) bool {
	return takeover.IsCreatedByOSM(obj) && (!seen.shared(obj) || takeover.IsCreatedByOSMFor(obj, seen.md))
}

// shared reports whether an object has a name of another pool, too.
func (seen *observed) shared(obj client.Object) bool {
	return slices.ContainsFunc(seen.conflicts, func(other conflictingPool) bool { return other.sharesObjectName(obj) })
}

// takeOver completes a plan that writes Secrets of OSM, which are immutable: equivalent documents
// remain, and get our metadata only. The others are deleted and created, which waits until no
// machine boots from them.
func takeOver(seen *observed, planned plan) plan {
	changes := false
	for _, document := range []struct {
		have *corev1.Secret
		plan *secretPlan
	}{{seen.objects.provisioning, &planned.provisioning}, {seen.objects.bootstrap, &planned.bootstrap}} {
		if !takeover.Immutable(document.have) {
			continue
		}
		if document.plan.write == nil {
			if hasStaleWait(document.have, planned) && document.plan.patch == nil {
				document.plan.patch = map[string]string{} // writeUserData removes the annotation
			}
			continue
		}
		if seen.documents == nil {
			return plan{lacks: lacksDocuments}
		}
		planned.hasOSMDocument = true
		for _, difference := range preserveDocument(seen.documents[document.have.Name], document.plan) {
			planned.differs = append(planned.differs, document.have.Name+": "+difference)
		}
		changes = changes || document.plan.write != nil
	}
	if !changes {
		return planned
	}
	return postponeWhileBooting(seen, planned)
}

// preserveDocument turns the replacement of an immutable Secret into a patch of its
// metadata, if the documents are equivalent. It returns the differences.
func preserveDocument(live *corev1.Secret, p *secretPlan) []string {
	if differences := takeover.Compare(live, p.write); len(differences) > 0 {
		return differences // the document is replaced, and the event says so
	}
	p.patch, p.labels = p.write.Annotations, p.write.Labels
	p.patch[api.AnnotationDataDigest] = lineage.DataDigest(live.Data[api.UserDataKey])
	p.write = nil
	return nil
}

// postponeWhileBooting postpones a plan while a machine boots from a document that the plan
// replaces, because the document is absent for a moment. Tokens do not wait, nor does a
// provisioning document that is missing after an interrupted replacement.
func postponeWhileBooting(seen *observed, planned plan) plan {
	have := seen.objects
	if have.bootstrap == nil {
		return planned // its machines have nothing to boot from now
	}
	if seen.booting == nil {
		return plan{lacks: lacksMachine}
	}
	if seen.booting.machine == "" {
		return planned
	}
	wait := planTokenAndKubeconfig(seen)
	since := waitAnnotations(seen)
	for _, document := range []struct {
		have          *corev1.Secret
		replace, wait *secretPlan
	}{{have.provisioning, &planned.provisioning, &wait.provisioning}, {have.bootstrap, &planned.bootstrap, &wait.bootstrap}} {
		if document.replace.write != nil && takeover.Immutable(document.have) {
			document.wait.patch = metadataPatch(document.have.Annotations, since)
		}
	}
	if have.provisioning == nil {
		wait.access = planned.access.RetainAll()
		wait.edge.write = planned.edge.write
		wait.provisioning = planned.provisioning
	}
	wait.poll = earliestNonZero(wait.poll, bootPoll)
	wait.rejection = &fault.Rejection{Reason: api.EventWaiting, Err: fmt.Errorf("machine %s is booting: the Secrets that another controller made are replaced once no machine boots, and at %s at the latest", seen.booting.machine, lineage.FormatTime(seen.booting.until))}
	return wait
}

// hasStaleWait reports whether a Secret that is not to be replaced still has the annotation that it
// waits for that. If what the pool should have is not known, it may have to wait.
func hasStaleWait(have *corev1.Secret, p plan) bool {
	_, waits := have.Annotations[api.AnnotationWaitingSince]
	return waits && p.readError == nil && p.unrenewed == nil
}

// describeDifferences names the differences to a document of OSM, for an event.
func (p plan) describeDifferences() string {
	if !p.hasOSMDocument {
		return ""
	}
	return takeover.SummarizeDifferences(p.differs)
}
