package running

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// machineSet makes the MachineSet of a pool, as machine-controller does.
func (s *system) machineSet(pool string, revision, replicas int) {
	s.T.Helper()
	md := s.MachineDeployment(pool)
	s.Apply(map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "MachineSet",
		"metadata": map[string]any{
			"name": fmt.Sprintf("%s-%d", pool, revision), "namespace": s.Pools,
			"ownerReferences": []any{map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment", "name": md.Name, "uid": string(md.UID), "controller": true}},
		},
		"spec": map[string]any{"replicas": replicas},
	})
}

// second waits for the next second: times of the API have whole ones, so that the same would prove nothing.
func second() { time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) }

// machine creates a machine of a MachineSet in a later second than the configuration of its pool.
func (s *system) machine(pool string, revision int, name string) {
	s.T.Helper()
	second()
	var set machines.MachineSet
	if err := s.Get(s.Pools, fmt.Sprintf("%s-%d", pool, revision), &set); err != nil {
		s.T.Fatal(err)
	}
	s.Apply(map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "Machine",
		"metadata": map[string]any{
			"name": name, "namespace": s.Pools,
			"ownerReferences": []any{map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": "MachineSet", "name": set.Name, "uid": string(set.UID), "controller": true}},
		},
		"spec": map[string]any{"metadata": map[string]any{}},
	})
}

func (s *system) join(name string) {
	s.T.Helper()
	s.Status(&machines.Machine{}, name, `{"nodeRef":{"kind":"Node","name":"`+name+`"}}`)
}

// rollout waits until the rollout of osp-a is as it should be.
func (s *system) rollout(version string, wave int32, reason string) *api.RolloutStatus {
	s.T.Helper()
	var got *api.RolloutStatus
	s.Eventually(fmt.Sprintf("%s at wave %d, %s", version, wave, reason), func() error {
		got = s.ProfileSource().RolloutOf("osp-a")
		if got == nil || got.Version != version || got.Wave != wave || got.Reason != reason {
			return fmt.Errorf("the rollout is %+v", got)
		}
		return nil
	})
	return got
}

// rolledOut waits for the reason of the condition, and returns its message.
func (s *system) rolledOut(reason string) string {
	s.T.Helper()
	var c *metav1.Condition
	s.Eventually("condition RolledOut for "+reason, func() error {
		if c = apimeta.FindStatusCondition(s.ProfileSource().Status.Conditions, api.RolledOutCondition); c == nil || c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	return c.Message
}

// poolsHave checks what each of the pools has.
func (s *system) poolsHave(when string, want map[string]string) {
	s.T.Helper()
	for pool, version := range want {
		s.Served(pool, version)
	}
	if s.T.Failed() {
		s.T.Fatal(when)
	}
}

func wave(number string) func(map[string]any) {
	return func(md map[string]any) {
		md["metadata"].(map[string]any)["labels"] = map[string]any{api.LabelWave: number}
	}
}

// TestRollout is the life of a version that goes out in waves, with the rights of
// deploy/rbac.yaml; the test is machine-controller.
func TestRollout(t *testing.T) {
	s := newSystem(t)
	push := func(version string) string {
		return s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", version, "echo "+version)})
	}
	first := push("v1.0.0")
	s.Source(func(spec map[string]any) {
		spec["historyLimit"] = 0
		spec["rollout"] = map[string]any{"gate": "Waves", "window": "24h"}
	})
	s.Start()
	s.Ready(first)
	for pool, number := range map[string]string{"canary": "0", "last": "9"} {
		s.Pool(pool, "osp-a", wave(number))
	}
	s.Pool("most", "osp-a")
	s.Pool("odd", "osp-a", wave("11"))
	s.Pool("pinned", "osp-a", wave("0"), e2e.Annotate(api.AnnotationVersionPin, "v1.0.0"))
	s.poolsHave("at first", map[string]string{"canary": "v1.0.0", "most": "v1.0.0", "odd": "v1.0.0", "last": "v1.0.0", "pinned": "v1.0.0"})
	s.Event("odd", api.EventRolloutInvalid, `invalid wave "11"`)
	s.rolledOut(api.ReasonRolledOut)
	for _, pool := range []string{"canary", "most", "last"} {
		s.machineSet(pool, 1, 1)
		s.machine(pool, 1, pool+"-old")
		s.join(pool + "-old")
	}

	s.Run("wave by wave", func(t *testing.T) {
		// The controller is stopped at the moment of the push, and at the next step.
		s.Stop()
		second := push("v2.0.0")
		s.Start()
		s.Ready(second)
		s.rollout("v2.0.0", 0, "Window")
		s.poolsHave("wave 0", map[string]string{"canary": "v2.0.0", "most": "v1.0.0", "odd": "v1.0.0", "last": "v1.0.0", "pinned": "v1.0.0"})
		s.machineSet("canary", 1, 2)
		s.machine("canary", 1, "canary-new")
		r := s.rollout("v2.0.0", 0, "MachinesBooting")
		if r.Machines.Waiting != 1 || r.Pools.Total != 4 || r.Pools.Adopted != 1 {
			t.Errorf("the status is %+v", r)
		}
		s.Stop()
		s.join("canary-new")
		s.Start()
		r = s.rollout("v2.0.0", 5, "Window")
		if r.From == nil || r.From.Version != "v1.0.0" || r.Pools.Adopted != 3 || r.Machines.Joined != 1 {
			t.Errorf("the status is %+v", r)
		}
		s.poolsHave("wave 5", map[string]string{"canary": "v2.0.0", "most": "v2.0.0", "odd": "v2.0.0", "last": "v1.0.0"})
		s.Pool("new-last", "osp-a", wave("9"))
		s.Pool("new-canary", "osp-a", wave("1"))
		s.poolsHave("new pools", map[string]string{"new-last": "v1.0.0", "new-canary": "v2.0.0"})
		if says := s.rolledOut(api.ReasonRollingOut); !strings.Contains(says, `"osp-a" v2.0.0 is at wave 5`) {
			t.Errorf("it says %q", says)
		}
	})
	s.Run("a machine that does not join holds", func(t *testing.T) {
		s.machineSet("most", 1, 2)
		s.machine("most", 1, "most-new")
		s.rollout("v2.0.0", 5, "MachinesBooting")
		// machine-controller's join timeout.
		if err := s.Client.Delete(t.Context(), &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: "most-new"}}); err != nil {
			t.Fatal(err)
		}
		r := s.rollout("v2.0.0", 5, "MachinesNotJoined")
		if !r.Held || len(r.Failures) != 1 || r.Failures[0].Machine != "most-new" || r.Failures[0].Reason != api.FailureDeleted {
			t.Errorf("the status is %+v", r)
		}
		if says := s.rolledOut(api.ReasonRolloutHeld); !e2e.ContainsAll(says, []string{"machine most-new of pool", "gitops.k8c.io/release"}) {
			t.Errorf("it says %q", says)
		}
		s.Event("most", api.EventMachineFailed, "most-new")
		s.Event("osps", api.EventRolloutHeld) // events follow the status
		if notes := s.EventsIn(e2e.Namespace, "osps", api.EventRolloutHeld); len(notes) != 1 {
			t.Errorf("events are %q", notes)
		}
		// Held it stays, also when the next machine joins.
		s.machine("most", 1, "most-newer")
		s.join("most-newer")
		s.Eventually("the machine to be counted", func() error {
			if r := s.ProfileSource().RolloutOf("osp-a"); r.Machines.Joined != 2 || !r.Held {
				return fmt.Errorf("the rollout is %+v", r)
			}
			return nil
		})
		s.poolsHave("held", map[string]string{"last": "v1.0.0", "new-last": "v1.0.0"})
	})
	s.Run("the way back is open at once", func(t *testing.T) {
		s.Git.Run("revert", "--no-edit", "HEAD")
		s.Git.Run("push", "-q", "origin", "main")
		s.rollout("v1.0.0", 9, "RolledBack")
		s.poolsHave("back", map[string]string{"canary": "v1.0.0", "most": "v1.0.0", "odd": "v1.0.0", "last": "v1.0.0", "new-canary": "v1.0.0"})
		s.rolledOut(api.ReasonRolledOut)
	})
	s.Run("released", func(t *testing.T) {
		push("v3.0.0")
		s.rollout("v3.0.0", 0, "Window")
		s.poolsHave("wave 0", map[string]string{"canary": "v3.0.0", "most": "v1.0.0", "last": "v1.0.0"})
		s.PatchSource(fmt.Sprintf(`{"metadata":{"annotations":{%q:"v3.0.0@5"}}}`, api.AnnotationRelease))
		s.rollout("v3.0.0", 9, "Window")
		s.PatchSource(fmt.Sprintf(`{"metadata":{"annotations":{%q:"v3.0.0"}}}`, api.AnnotationRelease))
		s.rollout("v3.0.0", 9, "Done")
		s.poolsHave("all", map[string]string{"canary": "v3.0.0", "most": "v3.0.0", "odd": "v3.0.0", "last": "v3.0.0", "pinned": "v1.0.0"})
	})
	s.Run("machines are replaced", func(t *testing.T) {
		s.Set("most", api.AnnotationRollout, api.RolloutReplace)
		stamp := ""
		s.Eventually("a stamp", func() error {
			if stamp = s.MachineDeployment("most").Spec.Template.Metadata.Annotations[api.AnnotationConfig]; stamp == "" {
				return fmt.Errorf("there is none")
			}
			return nil
		})
		bootstrap, _ := s.Served("most", "v3.0.0")
		if stamp != bootstrap.Annotations[api.AnnotationInputDigest] {
			t.Errorf("the stamp is %s", stamp)
		}
		s.Event("most", api.EventMachinesReplaced)
		md := s.MachineDeployment("most")
		s.Status(md, "most", fmt.Sprintf(`{"observedGeneration":%d,"replicas":2,"updatedReplicas":2,"availableReplicas":2}`, md.Generation))
		s.Eventually("the replacement to be counted", func() error {
			if r := s.ProfileSource().Status.Replacements; r == nil || *r != (api.Replacements{}) {
				return fmt.Errorf("replacements are %+v", r)
			}
			return nil
		})
		if after := s.MachineDeployment("most"); after.Generation != md.Generation {
			t.Error("the template was written again")
		}
		if again, _ := s.Served("most", "v3.0.0"); again.ResourceVersion != bootstrap.ResourceVersion {
			t.Error("the stamp rotated the document")
		}
	})
	s.Run("without the gate", func(t *testing.T) {
		push("v4.0.0")
		s.rollout("v4.0.0", 0, "Window")
		s.PatchSource(`{"spec":{"rollout":{"gate":"None"}}}`)
		s.poolsHave("all", map[string]string{"canary": "v4.0.0", "most": "v4.0.0", "last": "v4.0.0"})
		s.Eventually("the rollouts to go", func() error {
			if status := s.ProfileSource().Status; len(status.Rollouts) > 0 || apimeta.FindStatusCondition(status.Conditions, api.RolledOutCondition) != nil {
				return fmt.Errorf("the status is %+v", status)
			}
			return nil
		})
	})
}
