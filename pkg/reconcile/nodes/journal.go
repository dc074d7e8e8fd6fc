package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/drift"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// errAuditPending reports that the audit log could not be written, which is logged there.
var errAuditPending = errors.New("the audit log lacks a fact")

// missingEntries returns the entries about a node that the audit log lacks, according to the
// status. It only uses fields that the cache has.
func (seen *observed) missingEntries(np *api.NodeProvenance) []auditlog.Event {
	if !seen.audited {
		return nil
	}
	var out []auditlog.Event
	has := api.ProvenanceJournaled{}
	if np.Status.Journaled != nil {
		has = *np.Status.Journaled
	}
	if f := nodeEvent(np, auditlog.NodeJoined, ""); f.ID() != has.Joined {
		out = append(out, f)
	}
	if agreed := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition); agreed != nil && agreed.Status == metav1.ConditionFalse {
		report := api.NodeReport{}
		if np.Status.Reported != nil {
			report = *np.Status.Reported
		}
		f := nodeEvent(np, auditlog.NodeDisputed, fmt.Sprintf("/%s/%s/%s/%s", lineage.FormatTime(agreed.LastTransitionTime.Time), agreed.Reason, report.Config, report.Commit))
		if f.ID() != has.Disputed {
			out = append(out, f)
		}
	}
	if f, ok := matchEvent(np, has.Match != ""); ok && f.ID() != has.Match {
		out = append(out, f)
	}
	if np.Status.Removed != nil {
		if f := nodeEvent(np, auditlog.NodeRemoved, ""); f.ID() != has.Removed {
			out = append(out, f)
		}
	}
	return out
}

// matchEvent returns the entry that a status calls for: that the node differs or is silent, or that
// it matches after such an entry.
func matchEvent(np *api.NodeProvenance, after bool) (auditlog.Event, bool) {
	m := np.Status.Match
	if m == nil {
		return auditlog.Event{}, false
	}
	kind := auditlog.NodeDiffers
	switch m.State {
	case api.MatchStateMatches:
		kind = auditlog.NodeMatches
	case api.MatchStateNotSupported:
		return auditlog.Event{}, false
	}
	return nodeEvent(np, kind, fmt.Sprintf("/%s/%s", lineage.FormatTime(m.Since.Time), m.State)), kind == auditlog.NodeDiffers || after
}

// nodeEvent returns an entry about a node without details.
func nodeEvent(np *api.NodeProvenance, kind auditlog.Kind, eventKey string) auditlog.Event {
	return auditlog.Event{
		Kind: kind, Object: auditlog.Object{Kind: nodecache.NodeKind.Kind, Name: np.Spec.Node.Name, UID: string(np.Spec.Node.UID)},
		Key: string(np.UID) + eventKey,
	}
}

// entryIDs returns the ids of entries, as the status records them.
func entryIDs(entries []auditlog.Event) api.ProvenanceJournaled {
	var out api.ProvenanceJournaled
	for i := range entries {
		switch id := entries[i].ID(); entries[i].Kind {
		case auditlog.NodeJoined:
			out.Joined = id
		case auditlog.NodeDisputed:
			out.Disputed = id
		case auditlog.NodeDiffers, auditlog.NodeMatches:
			out.Match = id
		case auditlog.NodeRemoved:
			out.Removed = id
		}
	}
	return out
}

// addDetails adds the details of an object, and of its new status, to an entry.
func addDetails(f *auditlog.Event, np, now *api.NodeProvenance) {
	f.Pool = &auditlog.Object{Kind: "MachineDeployment", Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name, UID: string(np.Spec.Pool.UID)}
	f.Is = auditConfiguration(np.Spec.Configuration)
	switch f.Kind {
	case auditlog.NodeDisputed:
		agreed := conditionWithMessage(api.AgreedCondition, np, now)
		f.Since = lineage.FormatTime(agreed.LastTransitionTime.Time)
		f.Reason = agreed.Reason
		f.Message = redact.RemoveControlChars(agreed.Message)
		f.Reported = auditReport(now.Status.Reported)
	case auditlog.NodeDiffers, auditlog.NodeMatches:
		m := now.Status.Match
		c := conditionWithMessage(api.MatchesCondition, np, now)
		if c == nil { // an earlier release, or a user, removed it
			c = new(drift.Condition(m, nil))
		}
		f.Since = lineage.FormatTime(m.Since.Time)
		f.Reason = c.Reason
		f.Message = redact.RemoveControlChars(c.Message)
		if m.State == api.MatchStateDiffers { // the condition names some
			f.Message = drift.Describe(m, len(m.Differences))
		}
	case auditlog.NodeRemoved:
		f.Since = lineage.FormatTime(now.Status.Removed.Time)
	default:
		f.Since = lineage.FormatTime(np.Spec.Node.Joined.Time)
		f.Machine = &auditlog.Object{Kind: "Machine", Namespace: np.Spec.Machine.Namespace, Name: np.Spec.Machine.Name, UID: string(np.Spec.Machine.UID)}
		f.Evidence, f.Message = string(np.Spec.Evidence), redact.RemoveControlChars(np.Spec.Explanation)
		f.Reported = auditReport(np.Spec.Reported)
	}
}

// conditionWithMessage returns a condition of the new status of an object. Those from the cache have no
// message.
func conditionWithMessage(kind string, np, now *api.NodeProvenance) *metav1.Condition {
	c := apimeta.FindStatusCondition(now.Status.Conditions, kind)
	if c == nil || c.Message == "" {
		if live := apimeta.FindStatusCondition(np.Status.Conditions, kind); live != nil {
			return live
		}
	}
	return c
}

func auditReport(r *api.NodeReport) *auditlog.Report {
	if r == nil {
		return nil
	}
	return &auditlog.Report{Config: r.Config, Commit: r.Commit}
}

func auditConfiguration(c *api.ProvenanceConfiguration) *auditlog.Configuration {
	if c == nil {
		return nil
	}
	return &auditlog.Configuration{
		InputDigest: c.InputDigest, Profile: c.Profile, Version: c.Version, ProfileDigest: c.ProfileDigest,
		Repository: c.Repository, Path: c.Path, Commit: c.Commit, Change: c.Change, SelectedBy: c.SelectedBy,
		Author: c.Author, Signature: c.Signature, Engine: c.Engine,
	}
}

// recordBeforeDeletion writes a whole NodeProvenance to the audit log before it is deleted. It
// reports whether it still exists and its node is deleted.
func (r *Reconciler) recordBeforeDeletion(ctx context.Context, np *api.NodeProvenance) (bool, error) {
	if r.AuditLog == nil {
		return true, nil
	}
	live, err := r.readUntrimmed(ctx, np)
	if err != nil || live == nil {
		return false, err
	}
	if live.Status.Removed == nil { // the cache is behind
		return false, nil
	}
	record, err := json.Marshal(struct {
		Spec   api.NodeProvenanceSpec   `json:"spec"`
		Status api.NodeProvenanceStatus `json:"status"`
	}{live.Spec, live.Status})
	if err != nil {
		return false, fmt.Errorf("encoding NodeProvenance %s: %w", np.Name, err)
	}
	f := nodeEvent(live, auditlog.ProvenanceDropped, "")
	f.Since, f.Record = lineage.FormatTime(live.Status.Removed.Time), record
	if err := r.AuditLog.Append(f); err != nil {
		return false, fmt.Errorf("%w: %w", errAuditPending, err)
	}
	return true, nil
}
