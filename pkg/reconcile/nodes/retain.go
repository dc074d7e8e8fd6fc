package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// retainInterval is the time between two sweeps. Each iterates over the cache.
const retainInterval = 10 * time.Minute

// runRetention deletes expired NodeProvenances until ctx ends.
func (r *Reconciler) runRetention(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.deleteExpiredProvenances(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errAuditPending) { // already logged
			log.FromContext(ctx).Error(err, "removing old NodeProvenances")
		}
	}, retainInterval)
	return nil
}

// deleteExpiredProvenances deletes the NodeProvenances of deleted nodes that are older than Age, and the
// oldest ones beyond Max. None is deleted before the audit log has it.
func (r *Reconciler) deleteExpiredProvenances(ctx context.Context) error {
	all, err := r.ListProvenances(ctx)
	if err != nil {
		return err
	}
	old := expired(all, r.Retention, r.Clock.Now())
	for i, np := range old {
		stillRemoved, err := r.recordBeforeDeletion(ctx, np)
		if err != nil {
			r.Metrics.ExpiredProvenancesWaiting(len(old) - i)
			return err
		}
		if !stillRemoved {
			continue
		}
		err = r.Worker.Delete(ctx, &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: np.Name}}, client.Preconditions{UID: &np.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting NodeProvenance %s: %w", np.Name, err)
		}
		r.Metrics.ProvenanceExpired()
	}
	r.Metrics.ExpiredProvenancesWaiting(0)
	return nil
}

// expired returns the NodeProvenances to delete, oldest first.
func expired(all []api.NodeProvenance, retention Retention, now time.Time) []*api.NodeProvenance {
	var gone []*api.NodeProvenance
	for i := range all {
		if all[i].Status.Removed != nil {
			gone = append(gone, &all[i])
		}
	}
	slices.SortFunc(gone, func(a, b *api.NodeProvenance) int {
		if c := a.Status.Removed.Compare(b.Status.Removed.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	excess := max(0, len(all)-retention.Max)
	n := 0
	for n < len(gone) && (n < excess || !now.Before(gone[n].Status.Removed.Add(retention.Age))) {
		n++
	}
	return gone[:n]
}
