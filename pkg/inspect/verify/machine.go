package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// compareMachine follows the machine of an existing node to its pool. The result is a doubt if objects that
// prove a part of that no longer exist.
func (v *Verifier) compareMachine(ctx context.Context, s *target) (d *Difference, doubt string, err error) {
	spec := s.node.Spec
	var machine cluster.Machine
	found, err := kubeclient.Find(ctx, v.Worker, types.NamespacedName{Namespace: spec.Machine.Namespace, Name: spec.Machine.Name}, &machine)
	if err != nil {
		return nil, "", err
	}
	found = found && machine.UID == spec.Machine.UID
	switch ref := machine.Status.NodeRef; {
	case s.live == nil:
	case !found || ref == nil:
		if d, doubt, err = v.findOtherMachine(ctx, s); err != nil || d != nil {
			return d, "", err
		}
	case ref.Name != spec.Node.Name:
		return newDifference("spec.node.name", 0, ref.Name+", which the Machine names", spec.Node.Name), "", nil
	}
	switch {
	case !found && s.live == nil:
		return nil, "", nil
	case !found:
		return nil, fmt.Sprintf("Machine %s/%s, which proves the pool and the times, no longer exists", spec.Machine.Namespace, spec.Machine.Name), nil
	}
	fields := []field{{"spec.machine.created", machine.CreationTimestamp.UTC().Format(time.RFC3339), spec.Machine.Created.UTC().Format(time.RFC3339)}}
	chain, err := lineage.FollowOwners(ctx, kubeclient.Owners{v.Worker}, &machine)
	if err != nil {
		return nil, "", err
	}
	fields = append(fields, field{"spec.pool.machineSet", chain.MachineSet.Name, spec.Pool.MachineSet})
	if chain.Pool.Name == "" {
		return firstMismatch(fields[:1]...), "the Machine no longer leads to a pool by its owners", nil
	}
	if chain.Pool != (lineage.Reference{NamespacedName: s.pool, UID: spec.Pool.UID}) {
		// One that was created again, also under another name, adopts the MachineSets of the one before, if these
		// were left. Nothing says when one was created that is gone.
		md := kubeclient.Metadata(cluster.GroupVersion.WithKind("MachineDeployment"))
		exists, err := kubeclient.Owners{v.Worker}.Find(ctx, chain.Pool, md)
		switch {
		case err != nil:
			return nil, "", err
		case exists && !md.CreationTimestamp.Add(lineage.Leeway).After(spec.Node.Joined.Time):
			fields = append(fields, field{"spec.pool", chain.Pool.String(), s.pool.String()}, field{"spec.pool.uid", string(chain.Pool.UID), string(spec.Pool.UID)})
		default:
			doubt = "the pool was created again after the node had joined, or is gone, so nothing proves spec.pool"
		}
	}
	// A MachineSet that is used again gets another revision.
	if !slices.Contains(append(chain.EarlierRevisions, chain.Revision), spec.Pool.Revision) {
		fields = append(fields, field{"spec.pool.revision", chain.Revision, spec.Pool.Revision})
	}
	s.revisions = append(chain.EarlierRevisions, chain.Revision)
	return firstMismatch(fields...), doubt, nil
}

// findOtherMachine finds another Machine that names the node. The result is a doubt if that is younger than the
// node, so that it can have adopted it.
func (v *Verifier) findOtherMachine(ctx context.Context, s *target) (d *Difference, doubt string, err error) {
	var list cluster.MachineList
	if err := v.Worker.List(ctx, &list); err != nil {
		return nil, "", fmt.Errorf("listing Machines: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if ref := m.Status.NodeRef; ref == nil || ref.Name != s.live.Name || m.UID == s.node.Spec.Machine.UID {
			continue
		}
		if !m.CreationTimestamp.After(s.live.CreationTimestamp.Add(lineage.Leeway)) {
			return newDifference("spec.machine", 0, key(m)+", which names the node", s.node.Spec.Machine.Namespace+"/"+s.node.Spec.Machine.Name), "", nil
		}
		doubt = "Machine " + key(m) + ", which is younger than the node, names it"
	}
	return nil, doubt, nil
}
