package running

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A version is rolled out in waves with the source in one cluster and pools and machines in
// another, and both do not answer for a while; each half of the controller has the rights of
// deploy/two-clusters, and another replica takes over in between.
func testRolloutAcrossClusters(t *testing.T, a *apart) {
	m, w := a.management, a.worker
	push := func(version string) string {
		return m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", version, "echo "+version)})
	}
	first := push("v1.0.0")
	m.Source(func(spec map[string]any) {
		spec["rollout"] = map[string]any{"gate": "Waves", "window": "24h"}
	})
	a.start()
	m.Ready(first)
	w.Pool("canary", "osp-a", wave("0"), e2e.Annotate(api.AnnotationRollout, api.RolloutReplace))
	w.Pool("most", "osp-a")
	w.poolsHave("at first", map[string]string{"canary": "v1.0.0", "most": "v1.0.0"})
	m.rolledOut(api.ReasonRolledOut)
	w.machineSet("canary", 1, 1)
	w.machine("canary", 1, "canary-old")
	w.join("canary-old")
	second()

	// The worker cluster does not answer when a version arrives.
	w.Link.Cut()
	m.Ready(push("v2.0.0"))
	w.Link.Restore()
	m.rollout("v2.0.0", 0, "Replacing")
	w.poolsHave("wave 0", map[string]string{"canary": "v2.0.0", "most": "v1.0.0"})
	w.Eventually("the stamp", func() error {
		if w.MachineDeployment("canary").Spec.Template.Metadata.Annotations[api.AnnotationConfig] == "" {
			return errors.New("there is none")
		}
		return nil
	})
	w.Event("canary", api.EventMachinesReplaced)

	// The management cluster does not answer while machine-controller replaces the machine.
	m.Link.Cut()
	second()
	w.machineSet("canary", 2, 1)
	w.machine("canary", 2, "canary-new")
	w.join("canary-new")
	if err := w.Client.Delete(t.Context(), &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.Pools, Name: "canary-old"}}); err != nil {
		t.Fatal(err)
	}
	md := w.MachineDeployment("canary")
	w.Status(md, "canary", fmt.Sprintf(`{"observedGeneration":%d,"replicas":1,"updatedReplicas":1,"availableReplicas":1}`, md.Generation))
	m.Link.Restore()
	m.rollout("v2.0.0", 5, "Window")
	w.poolsHave("wave 5", map[string]string{"most": "v2.0.0"})

	// Another replica takes over, and finds what fails.
	m.Stop()
	second()
	w.machineSet("most", 1, 1)
	w.machine("most", 1, "most-new")
	a.start()
	m.rollout("v2.0.0", 5, "MachinesBooting")
	if err := w.Client.Delete(t.Context(), &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.Pools, Name: "most-new"}}); err != nil {
		t.Fatal(err)
	}
	m.rollout("v2.0.0", 5, "MachinesNotJoined")
	w.Event("most", api.EventMachineFailed, "most-new")
	m.Event("osps", api.EventRolloutHeld) // events follow the status
	if notes := m.EventsIn(e2e.Namespace, "osps", api.EventRolloutHeld); len(notes) != 1 {
		t.Errorf("events are %q", notes)
	}
	m.Git.Run("revert", "--no-edit", "HEAD")
	m.Git.Run("push", "-q", "origin", "main")
	m.rollout("v1.0.0", 9, "RolledBack")
	w.poolsHave("back", map[string]string{"canary": "v1.0.0", "most": "v1.0.0"})
	m.rolledOut(api.ReasonRolledOut)
}
