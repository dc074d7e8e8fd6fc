package manager

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient/runnables"
)

// leaseReport is the time between two log lines about the holder of a lease.
const leaseReport = time.Minute

// leaseReporter logs why this replica does not lead, and which Deployments of
// operating-system-manager would lead after it. A Deployment is reported once.
type leaseReporter struct {
	live       client.Reader
	lease      types.NamespacedName
	elected    <-chan struct{}
	deployment string // the Deployment of this process, in a Pod
	reported   map[doctor.OSMDeployment]bool
}

// addLeaseReporter adds the report about a lease to its manager.
func addLeaseReporter(mgr ctrl.Manager, opts *Options, lease types.NamespacedName) error {
	if !opts.LeaderElect {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the name of this machine: %w", err)
	}
	r := &leaseReporter{live: mgr.GetAPIReader(), lease: lease, elected: mgr.Elected(), deployment: deploymentOf(host)}
	return mgr.Add(runnables.Everywhere(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, r.logLeaseContenders, leaseReport)
		return nil
	}))
}

// logLeaseContenders logs the holder that this process waits for, and Deployments that would take
// the lease next.
func (r *leaseReporter) logLeaseContenders(ctx context.Context) {
	log := ctrl.Log.WithValues("lease", r.lease.String())
	select {
	case <-r.elected:
	default:
		var lease coordinationv1.Lease
		if r.live.Get(ctx, r.lease, &lease) == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
			log.Info("waiting for the lease", "holder", *lease.Spec.HolderIdentity)
		}
	}
	if r.lease.Name != LeaseName {
		return // operating-system-manager does not take it
	}
	found, err := doctor.ListOSMDeployments(ctx, r.live, r.lease.Namespace)
	if err != nil {
		return // without the permission, osm-gitops doctor reports them
	}
	for _, s := range r.filterUnreported(found) {
		log.Info("operating-system-manager takes the lease as soon as this controller releases it", "deployment", s.Name, "image", s.Image, "remedy", doctor.SuccessorRemedy)
	}
}

// filterUnreported returns the Deployments that were not found the last time, except the one of
// this process, whose image can have any name.
func (r *leaseReporter) filterUnreported(found []doctor.OSMDeployment) []doctor.OSMDeployment {
	var out []doctor.OSMDeployment
	now := map[doctor.OSMDeployment]bool{}
	for _, s := range found {
		if s.Replicas == 0 || s.Name == r.deployment {
			continue
		}
		now[s] = true
		if !r.reported[s] {
			out = append(out, s)
		}
	}
	r.reported = now
	return out
}

// deploymentOf returns the name of the Deployment of a Pod: name-hash-random.
func deploymentOf(pod string) string {
	for range 2 {
		i := strings.LastIndexByte(pod, '-')
		if i < 0 {
			return ""
		}
		pod = pod[:i]
	}
	return pod
}
