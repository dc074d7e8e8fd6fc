package profilesource

import (
	"fmt"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

const sourceKind = "ProfileSource"

// recordAuditEvents records the result of one reconciliation for auditors, from the difference between
// the old and the new status. If the controller stops before the status is written, the next
// reconciliation records the same entries again.
func (r *Reconciler) recordAuditEvents(before, ps *api.ProfileSource, out outcome, err error) {
	if r.AuditLog == nil {
		return
	}
	var events []auditlog.Event
	// The resource version before the reconciliation distinguishes an event that happens
	// again, such as a force-push back to an earlier revision, from a repeated entry.
	about := func(kind auditlog.Kind, eventKey string) auditlog.Event {
		return auditlog.Event{
			Kind: kind, Key: eventKey + "\n" + before.ResourceVersion,
			Object: auditlog.Object{Kind: sourceKind, Namespace: ps.Namespace, Name: ps.Name, UID: string(ps.UID)},
		}
	}
	addRejection := func(revision, reason string, why error) {
		text := redact.PrintableText(why.Error(), redact.MaxCondition)
		f := about(auditlog.ProfileRefused, revision+"\n"+text)
		f.Reason, f.Message = reason, text
		f.Profile = &auditlog.Profile{Repository: out.from, Revision: redact.PrintableLine(revision)}
		events = append(events, f)
	}
	switch {
	// A failed fetch says nothing about a commit, so auditors do not need it.
	case err != nil && findCommitError(err) != nil && isReadyReasonOrMessageChanged(before, ps):
		addRejection(out.revision, eventReason(err), err)
	case err == nil && isReadyReasonOrMessageChanged(before, ps):
		for _, why := range out.rejected[:min(len(out.rejected), maxNamed)] {
			addRejection(out.revision, api.EventProfileRefused, why)
		}
		if more := len(out.rejected) - maxNamed; more > 0 {
			addRejection(out.revision, api.EventProfileRefused, fmt.Errorf("and %d more of that revision", more))
		}
	}
	if err == nil {
		changes := inventory.ChangesOf(before, ps)
		for _, e := range slices.Concat(changes.Current, changes.Restored) {
			f := about(auditlog.ProfileAccepted, e.Object+"\n"+e.Digest+"\n"+out.revision)
			f.Profile = auditProfile(out, e)
			events = append(events, f)
		}
		for _, e := range changes.Removed {
			f := about(auditlog.ProfileRemoved, e.Name+"\n"+out.revision)
			f.Profile = auditProfile(out, e)
			events = append(events, f)
		}
	}
	if len(events) > 0 {
		r.AuditLog.Record(events...)
	}
}

// auditProfile returns the audit data of an inventory entry at the reconciled revision.
func auditProfile(out outcome, e api.ProfileEntry) *auditlog.Profile {
	return &auditlog.Profile{
		Name: e.Name, Version: e.Version, Object: e.Object, Digest: e.Digest, Repository: out.from, Revision: redact.PrintableLine(out.revision),
		Path: e.Path, Commit: e.Commit, SelectedBy: e.SelectedBy, Signature: redact.PrintableLine(e.Signature),
	}
}
