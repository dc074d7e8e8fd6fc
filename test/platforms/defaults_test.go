package platforms

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// With operatingSystemManager.deploy: false KubeOne applies no addon of its own, and our folder alone
// is complete: MachineDeployments can be written, a pool is served, and applying it again changes nothing.
func TestKubeOneWithoutAddon(t *testing.T) {
	k := newKubeOne(t)
	k.apply(k.ours())
	k.writes(true)
	k.deployments()
	_, first := k.versions(k.ours())
	k.apply(k.ours())
	if _, second := k.versions(k.ours()); !maps.Equal(first, second) {
		t.Errorf("applying it again changes (-first +second):\n%s", cmp.Diff(first, second))
	}
	s := e2e.NewSystemOn(t, k.cluster)
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Start("--leader-elect=true")
	s.Pool("pool", "osp-a")
	s.Served("pool", "v1.0.0")
}

// defaultOfDatacenter is the default profile of a datacenter, which KKP writes into the first
// MachineDeployment and copies into the user cluster. The pool gets it, and from Git as soon as a
// source has that name.
func defaultOfDatacenter(s *e2e.System) {
	s.T.Helper()
	s.Stop()
	s.ApplyYAML(strings.Replace(e2e.OSP("osp-of-datacenter", "v1.0.0", "echo copied"), "metadata:", "metadata:\n  namespace: "+e2e.Namespace, 1))
	s.Start("--leader-elect=true")
	s.Pool("pool", "osp-of-datacenter")
	s.Served("pool", "v1.0.0")
	s.Git.Push(map[string]string{"b.yaml": e2e.OSP("osp-of-datacenter", "v1.1.0", "echo from Git")})
	s.Served("pool", "v1.1.0")
}
