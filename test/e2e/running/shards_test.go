package running

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

const shardLabel = "gitops.k8c.io/shard"

// Three controllers share a cluster: objects with label a, objects with label b, and all others.
// Each reports only about its own objects, none deletes what another one uses, and a pool that
// changes its shard retains its documents.
func TestShards(t *testing.T) {
	s := newSystem(t)
	if err := s.Cluster.Apply(t.Context(), e2e.RepoPath("examples/shards/leases.yaml")); err != nil {
		t.Fatal(err)
	}
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source() // without a label: that of the controller with the rest
	labels := map[string]string{"web": "", "db": "a", "gpu": "b"}
	for _, pool := range []string{"web", "db", "gpu"} {
		s.Pool(pool, "osp-a", shardOf(labels[pool]))
	}
	b := s.shard(t, shardLabel+"=b")
	a := s.shard(t, shardLabel+"=a")
	s.Start("--leader-elect=true", "--watch-label-selector", "!"+shardLabel)
	s.Ready(first)
	s.Builtin("osp-ubuntu")
	for pool := range labels {
		s.Served(pool, "v1.0.0")
	}
	var leases coordinationv1.LeaseList
	s.Must(s.Client.List(t.Context(), &leases, client.InNamespace(e2e.Namespace)))
	var held []string
	for _, lease := range leases.Items {
		held = append(held, lease.Name)
	}
	for _, want := range []string{e2e.MainLease, "operating-system-manager-shard-" + shardDigits["a"], "operating-system-manager-shard-" + shardDigits["b"]} {
		if !slices.Contains(held, want) {
			t.Errorf("nobody holds %s; leases are %q", want, held)
		}
	}

	// Without its controller the pool of b is not changed, and the objects that it uses remain.
	b.Stop()
	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v2.0.0", "echo two")})
	s.Ready(second)
	s.Served("web", "v2.0.0")
	s.Served("db", "v2.0.0")
	if _, provisioning := s.Served("gpu", "v1.0.0"); provisioning == nil {
		t.Fatal("no document")
	}
	s.Pool("other", "osp-a", shardOf("a"))
	s.Served("other", "v2.0.0")
	s.Must(s.Client.Delete(t.Context(), s.MachineDeployment("other")))
	s.Gone(s.Pools, "other", &machines.MachineDeployment{})
	if err := s.Get(e2e.Namespace, "osp-a-v1.0.0", &osm.OperatingSystemProfile{}); err != nil {
		t.Errorf("the version that a pool of another shard has: %v", err)
	}

	// It moves to a, which updates it in its existing Secrets.
	before, _ := s.Served("gpu", "v1.0.0")
	s.Must(s.Client.Patch(t.Context(), s.MachineDeployment("gpu"), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"a"}}}`, shardLabel))))
	after, _ := s.Served("gpu", "v2.0.0")
	if before.UID != after.UID {
		t.Error("the Secret was replaced by another")
	}
	b.Start(b.flags...)
	s.Must(s.Client.Delete(t.Context(), s.MachineDeployment("gpu")))
	s.Eventually("the pool to be released", func() error {
		if _, _, err := s.Secrets("gpu"); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(errors.New("its documents are there"), err)
		}
		return nil
	})
	if status, _, stderr := s.handback(); status == 0 || !bytes.Contains([]byte(stderr), []byte("-shard-"+shardDigits["a"])) {
		t.Errorf("handback beside shards ends with %d: %s", status, stderr)
	}
	a.Stop()
}

// shardDigits are the first 8 of "printf %s gitops.k8c.io/shard=a | sha256sum".
var shardDigits = map[string]string{"a": "b136ea19", "b": "26fd9eef"}

func shardOf(value string) func(map[string]any) {
	return func(md map[string]any) {
		if value != "" {
			md["metadata"].(map[string]any)["labels"] = map[string]any{shardLabel: value}
		}
	}
}

// another is a second controller in the system's cluster.
type another struct {
	*system
	flags []string
}

// shard starts a controller of a shard.
func (s *system) shard(t *testing.T, selector string) *another {
	t.Helper()
	beside := &another{
		system: &system{&e2e.System{T: t, Cluster: s.Cluster, Client: s.Client, Git: s.Git, Cache: t.TempDir(), Log: &bytes.Buffer{}}},
		flags:  []string{"--leader-elect=true", "--watch-label-selector", selector},
	}
	t.Cleanup(beside.Stop)
	beside.Start(beside.flags...)
	return beside
}
