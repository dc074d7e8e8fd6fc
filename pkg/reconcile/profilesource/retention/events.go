package retention

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
)

// Report emits events about what Apply did and its error. It returns an error if the next run can
// succeed.
func (t *Retainer) Report(ctx context.Context, ps *api.ProfileSource, did Applied, err error) error {
	if len(did.created) > 0 {
		notify.EmitSourceEvent(t.Recorder, ps, corev1.EventTypeNormal, api.EventProfileCreated, "%s in the cluster: %s", notify.PluralizeWithVerb(len(did.created), "earlier version"), strings.Join(did.created, ", "))
	}
	if len(did.deleted) > 0 {
		notify.EmitSourceEvent(t.Recorder, ps, corev1.EventTypeNormal, api.EventProfilePruned, "%s deleted, to which nothing refers: %s", notify.PluralizeWithVerb(len(did.deleted), "version"), strings.Join(did.deleted, ", "))
	}
	t.emitSkipped(ps, did.skipped)
	return t.reportPermanentWriteError(ctx, ps, err)
}

// emitSkipped emits one event about the versions of the history that pools cannot get,
// and another only when they change.
func (t *Retainer) emitSkipped(ps *api.ProfileSource, skipped []string) {
	text := strings.Join(skipped, "; ")
	if text == t.Archive.skipped {
		return
	}
	t.Archive.skipped = text
	if text != "" {
		notify.EmitSourceEvent(t.Recorder, ps, corev1.EventTypeWarning, api.EventProfileSkipped, "%s of the history cannot be used by pools: %s", phrase.Count(len(skipped), "version"), text)
	}
}

// reportPermanentWriteError reports a write that the API server will reject again, because a
// permission is missing or a policy forbids it. It returns nil then, so that reconciling
// continues: every current version is applied. Other errors are returned.
func (t *Retainer) reportPermanentWriteError(ctx context.Context, ps *api.ProfileSource, err error) error {
	if err == nil {
		t.Archive.failed = ""
		return nil
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return err
	}
	if text := err.Error(); text != t.Archive.failed {
		t.Archive.failed = text
		log.FromContext(ctx).Error(err, "storing earlier versions of profiles")
		notify.EmitSourceEvent(t.Recorder, ps, corev1.EventTypeWarning, api.EventWriteRefused, "%v", err)
	}
	return nil
}
