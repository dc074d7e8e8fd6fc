package doctor

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const checkLease = "lease"

// ahead is the tolerated lead of the clock of a lease holder. The time of the API server is
// precise to a second.
const ahead = 5 * time.Second

// examineLeases checks whether a controller runs.
func (w *examination) examineLeases(ctx context.Context) {
	w.examineLease(ctx, w.Management, types.NamespacedName{Namespace: w.Namespace, Name: w.LeaseName})
	if w.hasWorkerCluster() {
		w.examineLease(ctx, w.Worker, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: w.WorkerLeaseName})
	}
}

func (w *examination) examineLease(ctx context.Context, in *Cluster, key types.NamespacedName) {
	var l coordinationv1.Lease
	err := in.Client.Get(ctx, key, &l)
	f := Finding{Check: checkLease, Cluster: w.clusterLabel(in)}
	switch holder, renewed, lives := holderOf(&l); {
	case apierrors.IsNotFound(err):
		f.Level = Warning
		f.Found = fmt.Sprintf("Lease %s not found: no controller has run, or it runs with --leader-elect=false", key)
		f.Remedy = "start the controller: osm-gitops controller --namespace " + w.Namespace
	case err != nil:
		w.addUnreadable(checkLease, in, "Lease "+key.String(), err)
		return
	case holder == "":
		f.Level, f.Found = Problem, fmt.Sprintf("Lease %s has no holder: the last controller was stopped", key)
		f.Remedy = "start the controller: without it, pools are not renewed"
	case renewed.After(in.seen.date.Add(ahead)):
		f.Level = Problem
		f.Found = fmt.Sprintf("the clock of %q, which holds Lease %s, is %s ahead of that of the API server", holder, key, renewed.Sub(in.seen.date).Round(time.Second))
		f.Remedy = "set the clock of its machine by NTP: it treats valid tokens and certificates as expired"
	case in.seen.date.After(renewed.Add(lives)):
		f.Level = Problem
		f.Found = fmt.Sprintf("%q holds Lease %s, and has not renewed it since %s", holder, key, renewed.UTC().Format(time.RFC3339))
		f.Remedy = "read the controller's log: it ended, cannot reach the API server, or its clock is behind; without it, bootstrap tokens expire within an hour"
	default:
		f.Level, f.Found = OK, fmt.Sprintf("%q holds Lease %s", holder, key)
	}
	w.addFinding(f)
}

// holderOf returns the holder of a lease, the last renewal, and the duration of the lease.
func holderOf(l *coordinationv1.Lease) (holder string, renewed time.Time, lives time.Duration) {
	if l.Spec.HolderIdentity == nil || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return "", time.Time{}, 0
	}
	return *l.Spec.HolderIdentity, l.Spec.RenewTime.Time, time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}
