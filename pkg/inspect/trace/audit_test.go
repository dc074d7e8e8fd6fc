package trace_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	tracepkg "github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// states are those of a trail's steps, in their order.
func states(tr *tracepkg.Result) string {
	var out []string
	for _, s := range tr.Steps {
		out = append(out, fmt.Sprintf("%s %s", s.Kind, s.State))
	}
	return strings.Join(out, ", ")
}

func nodeTrail(t *testing.T, e *clusterfixture.Fixture, name string) *tracepkg.Result {
	t.Helper()
	tr, err := e.Clusters().Node(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// The chain of a node in a fleet that has changed since.
const whole = "Node Found, Machine Found, MachineSet Found, MachineDeployment Found, OperatingSystemConfig Replaced, ControllerRevision Found, Secret Replaced, Secret Replaced, OperatingSystemProfile Found, ProfileSource Found"

func TestNode(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	tr := nodeTrail(t, e, "one")
	if got := states(tr); got != whole {
		t.Errorf("steps\n%s\nwant\n%s", got, whole)
	}
	if tr.Node.Evidence != api.EvidenceReported || tr.Profile != "osp-x" || tr.Version != "v1.0.0" || tr.Object != "osp-x-v1.0.0" || tr.Pool != "kube-system/workers" || !tr.IsConclusive() {
		t.Errorf("got %+v %+v", tr, tr.Node)
	}
	want := &tracepkg.Commit{
		Repository: clusterfixture.Repository, Path: "profiles/osp-x.yaml", Commit: clusterfixture.Commit(0), Change: clusterfixture.Change(0), SelectedBy: clusterfixture.Commit(0),
		Author: "Ada <ada@example.com>", CommittedAt: "2026-03-01T12:00:00Z", Signature: "commit " + clusterfixture.Commit(0) + " by ada@example.com, ssh SHA256:x",
	}
	if diff := cmp.Diff(want, tr.Commit); diff != "" {
		t.Errorf("the commit differs (-want +got):\n%s", diff)
	}
	if b := tr.Behind; b.State != api.BehindYes || b.Current != "osp-x v1.2.0" || len(b.Versions) != 2 || b.Versions[0].Version != "v1.1.0" || b.Versions[1].Commit != clusterfixture.Commit(2) {
		t.Errorf("behind is %+v", b)
	}
	if note := tr.Step("OperatingSystemConfig").Note; note != "at 2026-03-01T12:30:00Z; the pool has osp-x v1.2.0 now" {
		t.Errorf("the configuration is said to be %q", note)
	}
}

// Nodes without a report, nodes that were removed, and nodes without a NodeProvenance.
func TestOtherNodes(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	if tr := nodeTrail(t, e, "two"); tr.Node.Evidence != api.EvidenceInferred || tr.Version != "v1.1.0" || tr.Commit.Commit != clusterfixture.Commit(1) || !tr.IsConclusive() {
		t.Errorf("two: %+v %+v", tr, tr.Node)
	}
	tr := nodeTrail(t, e, "gone")
	if got, want := states(tr), strings.Replace(whole, "Node Found, Machine Found, MachineSet Found", "Node Removed, Machine Removed, MachineSet Removed", 1); got != want {
		t.Errorf("gone: steps\n%s\nwant\n%s", got, want)
	}
	if tr.Version != "v1.1.0" || tr.Node.Removed == nil || tr.Steps[0].Note != "the controller recorded its deletion at 2026-03-01T13:10:00Z" || !tr.IsConclusive() {
		t.Errorf("gone: %+v %+v", tr, tr.Node)
	}
	tr = nodeTrail(t, e, "new")
	if tr.Node.Provenance != "" || tr.Node.Evidence != api.EvidenceInferred || tr.Version != "v1.2.0" || tr.Behind.State != api.BehindNo || tr.Commit.Author != "Ada <ada@example.com>" {
		t.Errorf("new: %+v %+v", tr, tr.Node)
	}
	if got := states(tr); !strings.Contains(got, "OperatingSystemConfig Found, Secret Found, Secret Found, OperatingSystemProfile Found") {
		t.Errorf("new: steps %s", got)
	}
	var none *tracepkg.NotFoundError
	if _, err := e.Clusters().Node(t.Context(), "nobody"); !errors.As(err, &none) || !strings.Contains(err.Error(), "Node nobody does not exist") {
		t.Errorf("nobody: %v", err)
	}
}

// A name that several nodes had means the existing one; a NodeProvenance means its own.
func TestSameNameAgain(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	first := clusterfixture.Get[*api.NodeProvenance](e, "one.0000000e")
	e.RemoveNode(first, clusterfixture.At(80))
	second := e.Write("workers", e.Join("workers", "one", clusterfixture.At(81), nil))
	tr := nodeTrail(t, e, "one")
	if tr.Node.Provenance != second.Name || tr.Version != "v1.2.0" || len(tr.Node.Others) != 1 || tr.Node.Others[0] != first.Name {
		t.Errorf("got %+v", tr.Node)
	}
	tr, err := e.Clusters().Provenance(t.Context(), first.Name)
	if err != nil || tr.Version != "v1.0.0" || tr.Steps[0].State != tracepkg.Removed || tr.Steps[1].Note != "another Machine has its name now" {
		t.Errorf("got %+v (err %v)", tr, err)
	}
}

// TestMissingAndForeign: what is not as it should be is said at its step, and never
// guessed at.
func TestMissingAndForeign(t *testing.T) {
	record := "workers-kube-system-bfeaa922b3bf"
	for name, c := range map[string]struct {
		change    func(*clusterfixture.Fixture)
		node      string
		step      string // the first of a kind
		state     tracepkg.State
		note      string
		disagrees string // "" for nothing
	}{
		"a pool that is gone": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Delete[*machines.MachineDeployment](e, "workers")
				clusterfixture.Delete[*osm.OperatingSystemConfig](e, "workers-kube-system-config")
			},
			node: "one", step: "MachineDeployment", state: tracepkg.Removed, note: "the pool was deleted",
		},
		"a pool that was made again": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*machines.MachineDeployment](e, "workers").UID = "other"
			},
			node: "one", step: "MachineDeployment", state: tracepkg.Removed, note: "another MachineDeployment has its name now",
		},
		"a configuration of operating-system-manager": {
			change: func(e *clusterfixture.Fixture) {
				osc := clusterfixture.Get[*osm.OperatingSystemConfig](e, "workers-kube-system-config")
				osc.Annotations, osc.Labels = map[string]string{api.AnnotationOSPVersion: "v1.0.0"}, nil
			},
			node: "one", step: "OperatingSystemConfig", state: tracepkg.Foreign, note: "it has no record: operating-system-manager or a user created it",
		},
		"a configuration whose record was edited": {
			change: func(e *clusterfixture.Fixture) {
				a := clusterfixture.Get[*osm.OperatingSystemConfig](e, "workers-kube-system-config").Annotations
				a[api.AnnotationRecord] = strings.Replace(a[api.AnnotationRecord], clusterfixture.Commit(2), clusterfixture.Commit(7), 1)
			},
			node: "one", step: "OperatingSystemConfig", state: tracepkg.Edited, disagrees: "its record does not match its digest annotation",
		},
		"a configuration whose annotation was edited": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*osm.OperatingSystemConfig](e, "workers-kube-system-config").Annotations[api.AnnotationCommit] = clusterfixture.Commit(7)
			},
			node: "new", step: "OperatingSystemConfig", state: tracepkg.Edited, disagrees: `annotation gitops.k8c.io/commit says "` + clusterfixture.Commit(7) + `", its record says "` + clusterfixture.Commit(2) + `"`,
		},
		"a record that is gone": {
			change: func(e *clusterfixture.Fixture) { clusterfixture.Delete[*appsv1.ControllerRevision](e, record) },
			node:   "one", step: "ControllerRevision", state: tracepkg.Missing,
		},
		"a record that was edited": {
			change: func(e *clusterfixture.Fixture) {
				cr := clusterfixture.Get[*appsv1.ControllerRevision](e, record)
				cr.Data.Raw = []byte(strings.Replace(string(cr.Data.Raw), clusterfixture.Commit(0), clusterfixture.Commit(7), 1))
			},
			node: "one", step: "ControllerRevision", state: tracepkg.Edited, disagrees: "ControllerRevision kube-system/" + record + " was edited",
		},
		"a NodeProvenance that was made again with another commit": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*api.NodeProvenance](e, "one.0000000e").Spec.Configuration.Commit = clusterfixture.Commit(7)
			},
			node: "one", step: "Node", state: tracepkg.Found, disagrees: `NodeProvenance one.0000000e says commit "` + clusterfixture.Commit(7) + `", the record of its configuration says "` + clusterfixture.Commit(0) + `"`,
		},
		"a node whose word is not what is recorded": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*api.NodeProvenance](e, "one.0000000e").Status.Conditions = []metav1.Condition{{Type: api.AgreedCondition, Status: metav1.ConditionFalse, Reason: api.ReasonNeverCurrent, Message: "it reports another"}}
			},
			node: "one", step: "Node", state: tracepkg.Found, disagrees: "the node's report: it reports another",
		},
		"a profile that was edited": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0").Spec.BootstrapConfig.Files[0].Content.Inline.Data = "#!/bin/sh\nevil\n"
			},
			node: "one", step: "OperatingSystemProfile", state: tracepkg.Edited, disagrees: "OperatingSystemProfile kube-system/osp-x-v1.0.0 was edited",
		},
		"a profile that was made again with other content": {
			change: func(e *clusterfixture.Fixture) {
				osp := clusterfixture.Get[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0")
				osp.Spec.BootstrapConfig.Files[0].Content.Inline.Data = "#!/bin/sh\nevil\n"
				osp.Annotations[api.AnnotationDigest] = profile.Digest(osp.Spec)
			},
			node: "one", step: "OperatingSystemProfile", state: tracepkg.Edited, disagrees: "does not match the record",
		},
		"a profile that says another commit": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0").Annotations[api.AnnotationCommit] = clusterfixture.Commit(7)
			},
			node: "one", step: "OperatingSystemProfile", state: tracepkg.Found, disagrees: `annotation gitops.k8c.io/commit says "` + clusterfixture.Commit(7) + `"`,
		},
		"a profile that is gone": {
			change: func(e *clusterfixture.Fixture) { clusterfixture.Delete[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0") },
			node:   "one", step: "OperatingSystemProfile", state: tracepkg.Removed,
		},
		"a source that is gone": {
			change: func(e *clusterfixture.Fixture) { clusterfixture.Delete[*api.ProfileSource](e, clusterfixture.Source) },
			node:   "one", step: "ProfileSource", state: tracepkg.Removed, note: "the profile's object names it",
		},
		"a Secret of somebody else": {
			change: func(e *clusterfixture.Fixture) {
				clusterfixture.Get[*corev1.Secret](e, "workers-kube-system-bootstrap-config").Annotations = nil
			},
			node: "new", step: "Secret", state: tracepkg.Foreign, note: "this controller did not create it",
		},
		"a machine of nobody": {
			change: func(e *clusterfixture.Fixture) { clusterfixture.Get[*machines.Machine](e, "new").OwnerReferences = nil },
			node:   "new", step: "MachineSet", state: tracepkg.Missing, note: "no MachineSet owns the Machine",
		},
		"a node without a machine": {
			change: func(e *clusterfixture.Fixture) { clusterfixture.Delete[*machines.Machine](e, "new") },
			node:   "new", step: "Machine", state: tracepkg.Missing, note: "no Machine names this node, and the node names none: it is not of a pool",
		},
		"records that may not be read": {
			change: func(e *clusterfixture.Fixture) { e.ReadErrors = []string{"ControllerRevision"} },
			node:   "one", step: "ControllerRevision", state: tracepkg.Unreadable, note: "the archived records of the pool: you have no permission to read it",
		},
		"Secrets that may not be read": {
			change: func(e *clusterfixture.Fixture) { e.ReadErrors = []string{"Secret"} },
			node:   "one", step: "Secret", state: tracepkg.Unreadable, note: "you have no permission to read it",
		},
		"NodeProvenances that may not be read": {
			change: func(e *clusterfixture.Fixture) { e.ReadErrors = []string{"NodeProvenance"} },
			node:   "one", step: "Node", state: tracepkg.Found, note: "NodeProvenances: you have no permission to read it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := clusterfixture.TwoPools(t)
			c.change(e)
			tr := nodeTrail(t, e, c.node)
			step := tr.Step(c.step)
			if step == nil || step.State != c.state || c.note != "" && step.Note != c.note {
				t.Errorf("the step is %+v", step)
			}
			if all := strings.Join(tr.Disagreements, "\n"); (all == "") != (c.disagrees == "") || !strings.Contains(all, c.disagrees) {
				t.Errorf("disagreements are %q", all)
			}
			if c.disagrees != "" && tr.IsConclusive() {
				t.Error("it counts as known")
			}
		})
	}
}

// A profile that a user created by hand has no commit; a node of it is known.
func TestByHand(t *testing.T) {
	e := clusterfixture.New(t)
	osp := e.Push(0, "echo one")
	osp.Name, osp.Labels, osp.Annotations = "osp-hand", nil, map[string]string{}
	e.Pool("workers")
	e.ServeObject("workers", osp, clusterfixture.At(1))
	e.Join("workers", "one", clusterfixture.At(10), nil)
	tr := nodeTrail(t, e, "one")
	step := tr.Step("OperatingSystemProfile")
	if tr.Commit != nil || tr.Version != "v1.0.0" || step.State != tracepkg.Foreign || !strings.Contains(step.Note, "its commit is unknown") || !tr.IsConclusive() {
		t.Errorf("got %+v, %+v", tr, step)
	}
	osp.Spec.Version = "v1.1.0"
	tr = nodeTrail(t, e, "one")
	if step := tr.Step("OperatingSystemProfile"); step.Note != "it was changed since, to version v1.1.0" || len(tr.Disagreements) > 0 {
		t.Errorf("got %+v, %q", step, tr.Disagreements)
	}
}

func TestMachine(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	bare := e.Join("workers", "bare", clusterfixture.At(70), nil)
	clusterfixture.Get[*machines.Machine](e, "bare").Status.NodeRef = nil
	clusterfixture.Delete[*corev1.Node](e, bare.Name)
	boot := api.MachineBootStatus{
		Machine: "bare", MachineUID: clusterfixture.Get[*machines.Machine](e, "bare").UID, Stage: api.BootStageSetup, Outcome: api.BootFailing, BootID: "b", Attempt: 3,
		Cause: &api.BootCause{File: "profiles/osp-x.yaml", Line: 42, ExitStatus: 22},
	}
	another, older := boot, boot
	another.MachineUID, older.Stage = "another", api.BootStageBootstrap
	e.Objects = append(e.Objects, &api.BootReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-workers"},
		Spec: api.BootReportSpec{Machines: []api.MachineBoot{
			{Machine: "bare", Stage: api.BootStageBootstrap, BootID: "another", Log: "of another boot"},
			{Machine: "bare", Stage: api.BootStageSetup, BootID: "b", Log: "one\n\x1b[31mpass\x00word=c4n4ryc4n4ry\ntwo"},
		}},
		Status: api.BootReportStatus{Machines: []api.MachineBootStatus{older, boot, another}},
	})
	c := e.Clusters()
	if tr, err := c.Machine(t.Context(), types.NamespacedName{Name: "bare"}); err != nil || len(tr.Boots) != 2 || tr.Boots[0].Log != "" || tr.Boots[1].Cause.Line != 42 ||
		tr.Boots[1].Log != "one\n[31mpassword="+redact.Masked+"\ntwo" {
		t.Errorf("its boots are %+v (err %v)", tr.Boots, err)
	}
	for key, version := range map[types.NamespacedName]string{
		{Namespace: "kube-system", Name: "one"}: "v1.0.0", {Name: "two"}: "v1.1.0", {Namespace: "kube-system", Name: "gone"}: "v1.1.0", {Name: "bare"}: "v1.2.0",
	} {
		tr, err := c.Machine(t.Context(), key)
		if err != nil || tr.Version != version || tr.Subject.Kind != "Machine" {
			t.Errorf("%s: got %+v (err %v)", key, tr, err)
			continue
		}
		if isBare := tr.Node == nil; isBare != (key.Name == "bare") {
			t.Errorf("%s: its node is %+v", key, tr.Node)
		}
	}
	var none *tracepkg.NotFoundError
	if _, err := c.Machine(t.Context(), types.NamespacedName{Name: "nobody"}); !errors.As(err, &none) {
		t.Errorf("nobody: %v", err)
	}
	e.ReadErrors = []string{"Machine"}
	if _, err := e.Clusters().Machine(t.Context(), types.NamespacedName{Name: "bare"}); !errors.As(err, &none) || !strings.Contains(err.Error(), "you have no permission to read it") {
		t.Errorf("machines that may not be read: %v", err)
	}
	// An object that cannot be read can exist.
	e.ReadErrors = []string{"Machine", "Node", "NodeProvenance"}
	unread := e.Clusters()
	for asked, trace := range map[string]func() (*tracepkg.Result, error){
		"whether Node one exists": func() (*tracepkg.Result, error) { return unread.Node(t.Context(), "one") },
		"whether Machine one exists": func() (*tracepkg.Result, error) {
			return unread.Machine(t.Context(), types.NamespacedName{Name: "one"})
		},
		"whether NodeProvenance one exists": func() (*tracepkg.Result, error) { return unread.Provenance(t.Context(), "one") },
	} {
		if _, err := trace(); !errors.As(err, &none) || !strings.Contains(err.Error(), asked) || strings.Contains(err.Error(), "there is no ") {
			t.Errorf("%s: %v", asked, err)
		}
	}
	e.ReadErrors = nil
	clusterfixture.Get[*machines.Machine](e, "two").Name = "one"
	clusterfixture.Get[*machines.Machine](e, "one").Namespace = "elsewhere"
	if _, err := e.Clusters().Machine(t.Context(), types.NamespacedName{Name: "one"}); err == nil || !strings.Contains(err.Error(), "several namespaces") {
		t.Errorf("two machines of one name: %v", err)
	}
}

func TestPool(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	c := e.Clusters()
	for what, follow := range map[string]func() (*tracepkg.Result, error){
		"MachineDeployment": func() (*tracepkg.Result, error) {
			return c.MachineDeployment(t.Context(), types.NamespacedName{Name: "workers"}, tracepkg.Page{Limit: 2})
		},
		"OperatingSystemConfig": func() (*tracepkg.Result, error) { return c.Config(t.Context(), "workers-kube-system-config") },
		"Secret": func() (*tracepkg.Result, error) {
			return c.Secret(t.Context(), types.NamespacedName{Name: "workers-kube-system-provisioning-config"})
		},
	} {
		tr, err := follow()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if tr.Subject.Kind != what || tr.Pool != "kube-system/workers" || tr.Version != "v1.2.0" || tr.Commit.Commit != clusterfixture.Commit(2) || !tr.IsConclusive() || tr.Node != nil {
			t.Errorf("%s: got %+v", what, tr)
		}
		if got, want := states(tr), "MachineDeployment Found, OperatingSystemConfig Found, Secret Found, Secret Found, OperatingSystemProfile Found, ProfileSource Found"; got != want {
			t.Errorf("%s: steps\n%s\nwant\n%s", what, got, want)
		}
	}
	var none *tracepkg.NotFoundError
	if _, err := c.MachineDeployment(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: "nobody"}, tracepkg.Page{}); !errors.As(err, &none) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := c.MachineDeployment(t.Context(), types.NamespacedName{Name: "nobody"}, tracepkg.Page{}); !errors.As(err, &none) || !strings.Contains(err.Error(), "NAMESPACE") {
		t.Errorf("nobody: %v", err)
	}

	copied := clusterfixture.Get[*osm.OperatingSystemConfig](e, "others-kube-system-config")
	copied.Name = "copied"
	if tr, err := e.Clusters().Config(t.Context(), "copied"); err != nil || states(tr) != "OperatingSystemConfig Foreign" || tr.IsConclusive() {
		t.Errorf("a copy under another name: %+v (err %v)", tr, err)
	}

	// The remaining objects of a deleted pool answer for it.
	clusterfixture.Delete[*machines.MachineDeployment](e, "workers")
	clusterfixture.Delete[*osm.OperatingSystemConfig](e, "workers-kube-system-config")
	tr, err := e.Clusters().MachineDeployment(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: "workers"}, tracepkg.Page{})
	if err != nil || tr.Nodes.Total != 3 || tr.Step("OperatingSystemConfig").State != tracepkg.Missing {
		t.Errorf("a pool that is gone: %+v (err %v)", tr, err)
	}
}

// A page lists nodes of a commit, and the next page continues after it.
func TestCommit(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	c := e.Clusters()
	whole := func(commit string) *tracepkg.Result {
		t.Helper()
		tr, err := c.Commit(t.Context(), commit, tracepkg.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	for _, commit := range []string{clusterfixture.Commit(1), clusterfixture.Change(1)} { // what was merged, and what the author wrote
		tr := whole(commit)
		if tr.Nodes.Total != 2 || tr.Nodes.Present != 1 || tr.Nodes.Behind != 1 || len(tr.Nodes.Nodes) != 2 || tr.Nodes.Nodes[0].Name != "gone" || tr.Nodes.Nodes[1].Name != "two" {
			t.Errorf("%s: nodes are %+v", commit, tr.Nodes)
		}
		if len(tr.Steps) != 1 || tr.Steps[0].Name != "osp-x-v1.1.0" || tr.Commit.Commit != clusterfixture.Commit(1) {
			t.Errorf("%s: got %+v", commit, tr)
		}
		if len(tr.Pools) != 1 || tr.Pools[0].Pool != "kube-system/workers" || tr.Pools[0].Until == nil {
			t.Errorf("%s: pools are %+v", commit, tr.Pools)
		}
	}
	if tr := whole(clusterfixture.Commit(0)[:12] /* of all three */); len(tr.Steps) != 3 || tr.Nodes.Total != 3 || len(tr.Pools) != 4 {
		t.Errorf("an abbreviation of several: %+v", tr)
	}
	first, err := c.Commit(t.Context(), clusterfixture.Commit(1), tracepkg.Page{Limit: 1})
	if err != nil || len(first.Nodes.Nodes) != 1 || first.Nodes.Next == "" {
		t.Fatalf("got %+v (err %v)", first, err)
	}
	second, err := c.Commit(t.Context(), clusterfixture.Commit(1), tracepkg.Page{Limit: 1, After: first.Nodes.Next})
	if err != nil || len(second.Nodes.Nodes) != 1 || second.Nodes.Next != "" || second.Nodes.Nodes[0].Name == first.Nodes.Nodes[0].Name || second.Nodes.Total != 2 {
		t.Errorf("got %+v (err %v)", second, err)
	}
	var none *tracepkg.NotFoundError
	if _, err := c.Commit(t.Context(), strings.Repeat("f", 40), tracepkg.Page{}); !errors.As(err, &none) {
		t.Errorf("a commit of nothing: %v", err)
	}
}

func TestProfile(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	tr, err := e.Clusters().TraceProfile(t.Context(), types.NamespacedName{Name: "osp-x-v1.0.0"}, tracepkg.Page{Limit: 10})
	if err != nil || tr.Nodes.Total != 1 || len(tr.Pools) != 2 || tr.Pools[0].Until != nil || tr.Pools[1].Until == nil || tr.Commit.Commit != clusterfixture.Commit(0) || tr.Profile != "osp-x" || tr.Version != "v1.0.0" {
		t.Errorf("got %+v (err %v)", tr, err)
	}
	// A pool may name the object in place of the profile.
	clusterfixture.Get[*osm.OperatingSystemConfig](e, "others-kube-system-config").Annotations[api.AnnotationProfile] = "osp-x-v1.0.0"
	if tr, err = e.Clusters().TraceProfile(t.Context(), types.NamespacedName{Name: "osp-x-v1.0.0"}, tracepkg.Page{}); err != nil || len(tr.Pools) != 2 || tr.Pools[0].Pool != "kube-system/others" {
		t.Errorf("of a pool that names the object: %+v (err %v)", tr, err)
	}
	clusterfixture.Get[*osm.OperatingSystemConfig](e, "others-kube-system-config").Annotations[api.AnnotationProfile] = "osp-x"
	// NodeProvenances still name a deleted profile.
	clusterfixture.Delete[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0")
	tr, err = e.Clusters().TraceProfile(t.Context(), types.NamespacedName{Name: "osp-x-v1.0.0"}, tracepkg.Page{Limit: 10})
	if err != nil || tr.Steps[0].State != tracepkg.Removed || tr.Commit.Commit != clusterfixture.Commit(0) || len(tr.Pools) != 2 {
		t.Errorf("got %+v (err %v)", tr, err)
	}
	var none *tracepkg.NotFoundError
	if _, err := e.Clusters().TraceProfile(t.Context(), types.NamespacedName{Name: "osp-y"}, tracepkg.Page{}); !errors.As(err, &none) {
		t.Errorf("a profile of nothing: %v", err)
	}
}

// For the name of a profile as in files and annotations, which no object has, the answer lists its
// versions, including those whose objects were deleted.
func TestProfileByItsOwnName(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	type version struct {
		Version, Object, Commit string
		Current                 bool
		Pools, Nodes            int
	}
	versions := func() (out []version) {
		t.Helper()
		tr, err := e.Clusters().TraceProfile(t.Context(), types.NamespacedName{Name: "osp-x"}, tracepkg.Page{Limit: 10})
		if err != nil || tr.Profile != "osp-x" || len(tr.Pools) != 4 || tr.Nodes == nil || tr.Nodes.Total != 3 || !tr.IsConclusive() || tr.Step("ProfileSource") == nil {
			t.Fatalf("got %+v (err %v)", tr, err)
		}
		for _, v := range tr.Versions {
			out = append(out, version{v.Version, v.Object, v.Commit, v.Current, v.Pools, v.Nodes})
		}
		return out
	}
	want := []version{
		{"v1.2.0", "osp-x-v1.2.0", clusterfixture.Commit(2), true, 1, 0},
		{"v1.1.0", "osp-x-v1.1.0", clusterfixture.Commit(1), false, 0, 1},
		{"v1.0.0", "osp-x-v1.0.0", clusterfixture.Commit(0), false, 1, 1},
	}
	if diff := cmp.Diff(want, versions()); diff != "" {
		t.Error(diff)
	}
	// Pools and nodes still name a version whose object was deleted.
	clusterfixture.Delete[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0")
	want[2].Object = ""
	if diff := cmp.Diff(want, versions()); diff != "" {
		t.Error(diff)
	}
	// A name that nothing has is none, with those that there are.
	_, err := e.Clusters().TraceProfile(t.Context(), types.NamespacedName{Name: "osp-y"}, tracepkg.Page{})
	if err == nil || !strings.Contains(err.Error(), "the profiles there are osp-x") {
		t.Errorf("a profile of nothing: %v", err)
	}
}

// security.md 28: text of strangers is harmless, and has an end.
func TestHostileText(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	evil := "\x1b]0;owned\a\x1b[2J<script>\u202e\r\n" + strings.Repeat("x", 40_000)
	c := clusterfixture.Get[*api.NodeProvenance](e, "one.0000000e").Spec.Configuration
	c.Author, c.Signature = evil, evil
	clusterfixture.Get[*corev1.Node](e, "one").Labels[api.LabelCommit] = evil
	a := clusterfixture.Get[*osm.OperatingSystemProfile](e, "osp-x-v1.0.0").Annotations
	a[api.AnnotationPath] = evil
	clusterfixture.Get[*corev1.Secret](e, "workers-kube-system-bootstrap-config").Annotations[api.AnnotationVersion] = evil
	tr := nodeTrail(t, e, "one")
	for _, text := range append(factsOf(tr), append(tr.Disagreements, tr.Commit.Author, tr.Commit.Signature)...) {
		if strings.ContainsAny(text, "\x1b\a\r\n\u202e") || len(text) > 5000 {
			t.Errorf("a text of %d bytes: %q", len(text), text[:min(len(text), 100)])
		}
	}
	if !strings.Contains(tr.Commit.Author, "<script>") {
		t.Errorf("the author is %q", tr.Commit.Author)
	}
}

func factsOf(tr *tracepkg.Result) []string {
	var out []string
	for _, s := range tr.Steps {
		out = append(out, s.Name, s.Note)
		for _, f := range s.Details {
			out = append(out, f.Value)
		}
	}
	return out
}
