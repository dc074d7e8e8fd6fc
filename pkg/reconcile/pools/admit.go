package pools

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Admit says why a pool cannot have the profile it asks for, nil if it can: the
// profile does not exist or does not suit the pool, or the pool cannot be read. It
// reads the management cluster through the cache, and writes nothing. An error for
// which refused is false is about the cluster, and says nothing about the pool.
func (r *Reconciler) Admit(ctx context.Context, md *cluster.MachineDeployment) (refused bool, err error) {
	err = r.admit(ctx, md)
	_, refused = fault.Permanent(err)
	return refused, err
}

func (r *Reconciler) admit(ctx context.Context, md *cluster.MachineDeployment) error {
	pool, err := render.DecodePool(md)
	if err != nil {
		return err
	}
	// A profile that left Git serves the pool that has it.
	osc := &osm.OperatingSystemConfig{}
	if _, err := kubeclient.Find(ctx, r.Management.Client, types.NamespacedName{Namespace: r.Namespace, Name: namesOf(md).Config}, osc); err != nil {
		return err
	}
	prof, err := r.profiles().Resolve(ctx, md, recordOf(osc))
	if reason, _ := fault.Permanent(err); reason == api.EventWaiting {
		return nil // a version that is made once the pool is there
	}
	if err != nil {
		return err
	}
	return prof.Fits(pool)
}
