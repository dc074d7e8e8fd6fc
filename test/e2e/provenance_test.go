package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// joins makes a machine of a pool, as machine-controller would, and its node, which
// says what its profile makes it say, or nothing.
func (s *system) joins(pool, name string, says *corev1.Secret) *corev1.Node {
	s.t.Helper()
	md := s.machineDeployment(pool)
	const group = "cluster.k8s.io/v1alpha1"
	ms := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.pools, Name: name, Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
	}}
	s.must(s.client.Create(s.t.Context(), ms))
	m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.pools, Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineSet", Name: ms.Name, UID: ms.UID}},
	}}
	s.must(s.client.Create(s.t.Context(), m))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.pools + "-" + name, Labels: map[string]string{api.LabelOwnedBy: string(m.UID)}}}
	if says != nil {
		node.Labels[api.LabelConfig] = render.ShortDigest(says.Annotations[api.AnnotationInputDigest])
		node.Labels[api.LabelCommit] = says.Annotations[api.AnnotationCommit]
	}
	s.must(s.client.Create(s.t.Context(), node))
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(s.t.Context())
		s.noError(client.IgnoreNotFound(s.client.Delete(ctx, node)))
		s.noError(client.IgnoreNotFound(s.client.Delete(ctx, &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: lineage.ProvenanceName(node.Name, node.UID)}})))
	})
	return node
}

func (s *system) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// comesFrom waits until a node is known to come from a commit, and to be behind or not.
func (s *system) comesFrom(node *corev1.Node, evidence api.Evidence, version, commit string, behind api.Behind) *api.NodeProvenance {
	s.t.Helper()
	var np api.NodeProvenance
	s.eventually(node.Name+" to come from "+version, func() error {
		if err := s.get("", lineage.ProvenanceName(node.Name, node.UID), &np); err != nil {
			return err
		}
		c := np.Spec.Configuration
		if c == nil || np.Spec.Evidence != evidence || c.Version != version || c.Commit != commit || c.Change != commit || np.Status.Behind != behind {
			return fmt.Errorf("got %+v, %+v, %+v", np.Spec, c, np.Status)
		}
		return nil
	})
	return &np
}

// Which commit a node comes from, over three pushes of which one is a revert, with the
// controller's own records and rights, also for what it did not see.
func TestProvenance(t *testing.T) {
	const settle = 7 * time.Second // so that what was current when a machine was created is beyond doubt
	s := newSystem(t)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.begin(first)
	s.pool("pool-a", "osp-a")
	_, provisioning := s.served("pool-a", "v1.0.0")
	one := s.joins("pool-a", "one", provisioning)
	s.comesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
	time.Sleep(settle)

	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	_, provisioning = s.served("pool-a", "v1.1.0")
	np := s.comesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindYes)
	if m := np.Status.Missing; m == nil || m.Version != "v1.1.0" || m.Commit != second {
		t.Errorf("it misses %+v", m)
	}
	two := s.joins("pool-a", "two", provisioning)
	s.comesFrom(two, api.EvidenceReported, "v1.1.0", second, api.BehindNo)
	three := s.joins("pool-a", "three", nil)
	s.comesFrom(three, api.EvidenceInferred, "v1.1.0", second, api.BehindNo)

	s.stop()
	unseen := s.joins("pool-a", "unseen", nil)
	time.Sleep(settle)
	s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}) // the revert
	s.start()
	s.served("pool-a", "v1.0.0")
	s.comesFrom(unseen, api.EvidenceInferred, "v1.1.0", second, api.BehindYes)
	s.comesFrom(two, api.EvidenceReported, "v1.1.0", second, api.BehindYes)
	s.comesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
	time.Sleep(settle)
	four := s.joins("pool-a", "four", nil)
	s.comesFrom(four, api.EvidenceInferred, "v1.0.0", first, api.BehindNo)

	s.must(s.client.Delete(t.Context(), two))
	s.eventually("the removal of a node to be noted", func() error {
		if err := s.get("", lineage.ProvenanceName(two.Name, two.UID), np); err != nil {
			return err
		}
		if np.Status.Removed == nil {
			return fmt.Errorf("got %+v", np.Status)
		}
		return nil
	})
}
