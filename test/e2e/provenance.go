package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Joins makes a machine of a pool, as machine-controller would, and its node, which
// says what its profile makes it say, or nothing.
func (s *System) Joins(pool, name string, says *corev1.Secret) *corev1.Node {
	s.T.Helper()
	md := s.MachineDeployment(pool)
	const group = "cluster.k8s.io/v1alpha1"
	ms := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Pools, Name: name, Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
	}}
	s.Must(s.Client.Create(s.T.Context(), ms))
	m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Pools, Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineSet", Name: ms.Name, UID: ms.UID}},
	}}
	s.Must(s.Client.Create(s.T.Context(), m))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Pools + "-" + name, Labels: map[string]string{api.LabelOwnedBy: string(m.UID)}}}
	if says != nil {
		node.Labels[api.LabelConfig] = render.ShortDigest(says.Annotations[api.AnnotationInputDigest])
		node.Labels[api.LabelCommit] = says.Annotations[api.AnnotationCommit]
	}
	s.Must(s.Client.Create(s.T.Context(), node))
	s.T.Cleanup(func() {
		ctx := context.WithoutCancel(s.T.Context())
		s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, node)))
		s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: lineage.ProvenanceName(node.Name, node.UID)}})))
	})
	return node
}

func (s *System) Must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// ComesFrom waits until a node is known to come from a commit, and to be behind or not.
func (s *System) ComesFrom(node *corev1.Node, evidence api.Evidence, version, commit string, behind api.Behind) *api.NodeProvenance {
	s.T.Helper()
	var np api.NodeProvenance
	s.Eventually(node.Name+" to come from "+version, func() error {
		if err := s.Get("", lineage.ProvenanceName(node.Name, node.UID), &np); err != nil {
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

// Trace asks the program, with the rights of a kubeconfig.
func (s *System) Trace(kubeconfig, subject string, flags ...string) *trace.Result {
	s.T.Helper()
	status, out, errs := s.Runs(append([]string{"trace", subject, "--kubeconfig", kubeconfig, "-o", "json", "--git-hosts", "127.0.0.1=gitea"}, flags...)...)
	var tr trace.Result
	if err := json.Unmarshal([]byte(out), &tr); err != nil || status != 0 {
		s.T.Fatalf("trace %s: status %d, err %v\n%s%s", subject, status, err, errs, out)
	}
	return &tr
}

// Origin returns what the git command reports about the current profile.
func (g *GitServer) Origin(name string) *trace.Commit {
	g.t.Helper()
	path := "profiles/" + name
	c := &trace.Commit{Repository: g.URL, Path: path, Commit: g.Run("log", "--first-parent", "-1", "--format=%H", "--", path), Change: g.Run("log", "-1", "--format=%H", "--", path)}
	c.SelectedBy = c.Commit
	c.Author = strings.ReplaceAll(g.Run("log", "-1", "--format=%an <%ae>", "--", path), "\u202e", "")
	c.Subject = strings.NewReplacer("\u202e", "", "\x1b", "").Replace(g.Run("log", "-1", "--format=%s", "--", path))
	at, err := time.Parse(time.RFC3339, g.Run("log", "-1", "--format=%cI", c.Commit))
	if err != nil {
		g.t.Fatal(err)
	}
	c.CommittedAt = at.UTC().Format(time.RFC3339)
	base := strings.TrimSuffix(g.URL, ".git")
	c.Link, c.FileLink = base+"/commit/"+c.Commit, base+"/src/commit/"+c.Commit+"/"+path
	if c.Change != c.Commit {
		c.ChangeLink = base + "/commit/" + c.Change
	}
	return c
}
