package boots

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// planned returns the plan for a machine that reports a failure, with what is known from before.
func planned(now time.Time, entry api.MachineBoot, before ...api.MachineBootStatus) plan {
	return newPlan(&observed{
		md: &cluster.MachineDeployment{}, now: now,
		report:   &api.BootReport{Spec: api.BootReportSpec{Machines: []api.MachineBoot{entry}}, Status: api.BootReportStatus{Machines: before}},
		machines: map[string]machine{entry.Machine: {Machine: &cluster.Machine{ObjectMeta: metav1.ObjectMeta{Name: entry.Machine, UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Minute))}}}},
		gone:     []bool{false},
		causes:   []*located{{BootCause: api.BootCause{ExitStatus: 1}}},
		entries:  []*api.ProvenanceConfiguration{{Profile: "osp-a", Version: "v2"}},
	})
}

// A machine that failed and boots again fails at its first attempt again. If its failure counted
// before, it counts now, so that a held wave does not go on; otherwise its time goes on.
func TestFailureOutlivesReboot(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	entry := api.MachineBoot{Machine: "m", Stage: api.BootStageSetup, Outcome: api.BootFailing, BootID: "second", Attempt: 1}
	before := api.MachineBootStatus{Machine: "m", MachineUID: "u", Stage: api.BootStageSetup, Outcome: api.BootFailing, BootID: "first"}
	for name, c := range map[string]struct {
		attempt    int32
		since      time.Duration // before now
		boot       string
		wantCounts time.Duration // before now, negative for later
	}{
		"third attempt a minute ago": {3, time.Minute, "first", 0},
		"six minutes":                {1, 6 * time.Minute, "first", time.Minute},
		"four minutes":               {2, 4 * time.Minute, "first", -time.Minute},
		"the same boot":              {2, 4 * time.Minute, "second", -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			have := before
			have.Attempt, have.BootID, have.Since = c.attempt, c.boot, metav1.NewTime(now.Add(-c.since))
			p := planned(now, entry, have)
			if len(p.status) != 1 {
				t.Fatalf("plan %+v", p)
			}
			if got := now.Sub(p.status[0].CountsFrom()); got != c.wantCounts {
				t.Errorf("it counts since %s, want %s", got, c.wantCounts)
			}
		})
	}
}

// A machine that joins with another profile of the same version does not end the failure of a
// profile.
func TestVersionOfOtherProfile(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	created := now.Add(-time.Hour)
	failed := api.MachineBootStatus{
		Machine: "deleted", MachineUID: "d", Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: 3, Profile: "osp-a", Version: "v2", Since: metav1.NewTime(now.Add(-10 * time.Minute)),
	}
	for profile, remains := range map[string]bool{"osp-b": true, "osp-a": false} {
		joined := &cluster.Machine{ObjectMeta: metav1.ObjectMeta{Name: "joined", CreationTimestamp: metav1.NewTime(created)}}
		joined.Status.NodeRef = &corev1.ObjectReference{Name: "node"}
		p := newPlan(&observed{
			md: &cluster.MachineDeployment{}, now: now, machines: map[string]machine{"joined": {Machine: joined}},
			report:   &api.BootReport{Status: api.BootReportStatus{Machines: []api.MachineBootStatus{failed}}},
			timeline: lineage.Timeline{{Profile: profile, Version: "v2", From: created.Add(-time.Hour)}},
		})
		if got := len(p.status) == 1; got != remains {
			t.Errorf("after a machine of %s joined the failure remains: %t", profile, got)
		}
	}
}

// A script that ends with "exit 1" reports no line.
func TestFailureWithoutLine(t *testing.T) {
	c := &api.BootCause{NodeFile: "/opt/bin/setup", ExitStatus: 1}
	if got := c.Place(); got != "/opt/bin/setup" {
		t.Errorf("place %q", got)
	}
	if got := sentence(api.MachineBootStatus{Machine: "m", Profile: "p", Version: "v1", Stage: api.BootStageSetup, Cause: c}); !strings.Contains(got, "stage Setup fails: line on the node /opt/bin/setup, exit status 1") {
		t.Errorf("sentence %q", got)
	}
}
