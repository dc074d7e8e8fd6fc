package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

func TestFleet(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, fleetfixture.World())
	v := NewFleet(f, Filter{}, 1)
	if diff := cmp.Diff(fleet.Counts{Total: 6, Current: 2, Behind: 2, Unknown: 2, Disputed: 1, Deleted: 1}, v.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if v.Pools != 3 {
		t.Errorf("there are %d pools", v.Pools)
	}
	var got []string
	for _, p := range v.Items {
		got = append(got, fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, p.State))
	}
	// Pools that need attention are first; of a deleted pool only nodes remain.
	if diff := cmp.Diff([]string{"shop/web-us Rejected", "shop/new Waiting", "shop/web-eu Following", "legacy/old Deleted"}, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	// The pool's current version is first, also after a revert.
	want := []VersionShare{
		{Profile: "osp-web", Version: "v1.0.0", Commit: fleetfixture.First, Nodes: 2, Current: true, Since: fleetfixture.Noon.Add(-2 * fleetfixture.Day), Rank: 0},
		{Profile: "osp-web", Version: "v1.1.0", Commit: fleetfixture.Second, Nodes: 2, Since: fleetfixture.Noon.Add(-9 * fleetfixture.Day), Rank: 1},
	}
	if diff := cmp.Diff(want, v.Items[2].Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if s := v.Items[0].Versions; len(s) != 2 || s[0].Nodes != 0 || !s[0].Current || s[1].Rank != -1 || s[1].Nodes != 1 {
		t.Errorf("a pool whose node is not known: %+v", s)
	}
	if len(v.Notices) != 2 || v.Notices[1].What != "Node eu-2" || v.Notices[0].What != "Pool shop/web-us" || v.Notices[0].Message != "version v1.1.0 does not fit[31m" {
		t.Errorf("notices are %+v", v.Notices)
	}
	for query, want := range map[string]int{"eu": 1, "osp-web": 3, "v1.0.0": 2, fleetfixture.First[:6]: 2, "nothing": 0, "SHOP/": 3} {
		if v := NewFleet(f, Filter{Query: query}, 1); v.Matching != want {
			t.Errorf("%q fits %d pools, want %d", query, v.Matching, want)
		}
	}
	for state, want := range map[string]int{"Rejected": 1, "behind": 1, "Deleted": 1, "Paused": 0} {
		if v := NewFleet(f, Filter{State: state}, 1); v.Matching != want {
			t.Errorf("%s are %d pools, want %d", state, v.Matching, want)
		}
	}
}

func TestNotices(t *testing.T) {
	o := fleetfixture.World()
	o.ReadErrors = []string{"ControllerRevisions cannot be listed with these permissions."}
	o.Sources[0].Status.Conditions = []metav1.Condition{
		{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: api.ReasonVerificationFailed, Message: "commit is not signed"},
		{Type: api.SourceVerifiedCondition, Status: metav1.ConditionFalse, Reason: api.ReasonUnsigned, Message: "commit is not signed"},
	}
	o.Sources[0].Status.Rollouts = []api.RolloutStatus{{Profile: "osp-web", RolloutVersion: api.RolloutVersion{Version: "v1.2.0", Commit: fleetfixture.Third}, Wave: 3, Held: true, Reason: "MachinesNotJoined", Message: "2 machines"}}
	var got []string
	for _, n := range NewFleet(fleet.NewModel(fleetfixture.Noon, o), Filter{}, 1).Notices {
		got = append(got, n.State+": "+n.What+": "+n.Reason)
	}
	want := []string{
		"Unreadable: This page lacks something: ", "Rejected: ProfileSource kube-system/osps: VerificationFailed",
		"Paused: Profile osp-web v1.2.0 at wave 3: MachinesNotJoined", "Rejected: Pool shop/web-us: ",
		"Disputed: Node eu-2: ProvenanceDisputed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPool(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, fleetfixture.World())
	if _, ok := NewPool(f, "shop/nothing", 1); ok {
		t.Error("there is a page of a pool that nobody knows")
	}
	v, ok := NewPool(f, "shop/web-eu", 1)
	if !ok || v.Matching != 4 || len(v.Items) != 4 || v.Nodes.Deleted != 1 {
		t.Fatalf("got %+v", v)
	}
	want := []fleet.Period{
		{InputDigest: "d-eu-1", Profile: "osp-web", Version: "v1.0.0", Commit: fleetfixture.First, Author: "Ada <ada@example.com>", Current: true, From: fleetfixture.Noon.Add(-2 * fleetfixture.Day)},
		{InputDigest: "d-eu-2", Profile: "osp-web", Version: "v1.1.0", Commit: fleetfixture.Second, Author: "Ben <ben@example.com>", From: fleetfixture.Noon.Add(-9 * fleetfixture.Day), Until: fleetfixture.Noon.Add(-2 * fleetfixture.Day)},
		{InputDigest: "d-eu-1", Profile: "osp-web", Version: "v1.0.0", Commit: fleetfixture.First, Author: "Ada <ada@example.com>", From: fleetfixture.Noon.Add(-29 * fleetfixture.Day), Until: fleetfixture.Noon.Add(-9 * fleetfixture.Day)},
	}
	if diff := cmp.Diff(want, v.Configurations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The pages of a pool, of a commit and of rollouts say where machines fail to boot, without commands.
// What an earlier version broke remains at its commit.
func TestFailingBoots(t *testing.T) {
	o := fleetfixture.World()
	boot := func(version, commit string) *api.MachineBootStatus {
		return &api.MachineBootStatus{
			Machine: "m", Profile: "osp-web", Version: version, Stage: api.BootStageSetup, Attempt: 3, Since: fleetfixture.Ago(fleetfixture.Day),
			Cause: &api.BootCause{File: "profiles/osp-web.yaml", Line: 42, Command: "curl --secret", ExitStatus: 22, Commit: commit},
		}
	}
	o.Failing = []fleet.MachineBoot{
		{Pool: "shop/web-eu", Machine: "m", Boot: boot("v1.1.0", fleetfixture.Second)},
		{Pool: "shop/web-eu", Machine: "k", Boot: boot("v1.0.0", fleetfixture.First)},
		{Pool: "shop/web-us", Machine: "n", Boot: boot("v1.0.0", fleetfixture.First)},
		{Pool: "shop/gone", Machine: "o", Boot: boot("v1.0.0", fleetfixture.First)},
	}
	o.Failing[2].Boot.Cause = nil
	o.Sources[0].Status.Rollouts = []api.RolloutStatus{{Profile: "osp-web", Failures: []api.RolloutFailure{{Pool: "shop/web-eu", Machine: "m", Reason: api.FailureBootFailing, Cause: "osp-web.yaml:42\x1b[31m"}}}}
	f := fleet.NewModel(fleetfixture.Noon, o)
	pool, _ := NewPool(f, "shop/web-eu", 1)
	want := []BootRow{{
		Pool: "shop/web-eu", Machine: "k", Profile: "osp-web", Version: "v1.0.0", Stage: "Setup", Attempt: 3, Since: fleetfixture.Noon.Add(-fleetfixture.Day),
		Cause: "profiles/osp-web.yaml:42, exit status 22", Commit: fleetfixture.First,
	}}
	if diff := cmp.Diff(want, pool.Failing); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	for commit, machines := range map[string]string{fleetfixture.Second: "m", fleetfixture.Written: "m", fleetfixture.First: "nk"} {
		page, _ := NewCommit(f, commit, "", 1)
		var got string
		for _, row := range page.Failing {
			got += row.Machine
		}
		if got != machines || strings.Contains(fmt.Sprint(page.Failing), "secret") {
			t.Errorf("commit %s has %+v", commit, page.Failing)
		}
	}
	failures := []RolloutFailure{{"shop/web-eu", "m", "BootFailing", "osp-web.yaml:42[31m"}}
	if diff := cmp.Diff(failures, NewRollouts(f, 1).Items[0].Failures); diff != "" {
		t.Errorf("rollout (-want +got):\n%s", diff)
	}
}
