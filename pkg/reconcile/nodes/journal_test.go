package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
)

// audited enables an audit log and metrics in the controller of a fleet.
func (f *fleet) audited(path string) {
	f.t.Helper()
	if f.journal != nil {
		f.journal.Close()
	}
	f.metrics = metrics.New()
	f.journal = &auditlog.Writer{
		Path: path, Clock: f.clock, Log: logr.Discard(), Metrics: f.metrics,
		Began: auditlog.Event{Kind: auditlog.ControllerStarted, Object: auditlog.Object{Kind: "Controller", Name: f.ns}, Key: fmt.Sprint(f.n)},
	}
	f.n++
	f.t.Cleanup(func() { f.stop(); f.journal.Close() })
}

// lines are those of an audit log, whose chain is whole.
func (f *fleet) lines(path string) []auditlog.Entry {
	f.t.Helper()
	var out []auditlog.Entry
	_, err := auditlog.Verify([]string{path}, "", func(e auditlog.Entry) { out = append(out, e) })
	f.do(err)
	return out
}

// told returns the lines of a kind about a node.
func (f *fleet) told(path string, kind auditlog.Kind, node client.Object) []auditlog.Entry {
	f.t.Helper()
	var out []auditlog.Entry
	for _, e := range f.lines(path) {
		if e.Kind == kind && e.Object.UID == string(node.GetUID()) {
			out = append(out, e)
		}
	}
	return out
}

// One line for each event of a node; the object has the ids of its lines, and nothing is
// reported again after a restart.
func TestAuditLog(t *testing.T) {
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	liar := f.join(f.machine(pool), map[string]string{api.LabelConfig: "0123456789ab", api.LabelCommit: rec.Commit})
	honest := f.join(f.machine(pool), says(rec))
	disputed := f.until(lineage.ProvenanceName(liar.Name, liar.UID), func(np *api.NodeProvenance) bool {
		return np.Status.Journaled != nil && np.Status.Journaled.Disputed != ""
	})
	np := f.until(lineage.ProvenanceName(honest.Name, honest.UID), func(np *api.NodeProvenance) bool { return np.Status.Journaled != nil })

	joined := f.told(path, auditlog.NodeJoined, honest)
	if len(joined) != 1 || joined[0].ID != np.Status.Journaled.Joined {
		t.Fatalf("got %+v, and the object names %+v", joined, np.Status.Journaled)
	}
	want := auditlog.Event{
		Kind: auditlog.NodeJoined, Object: auditlog.Object{Kind: "Node", Name: honest.Name, UID: string(honest.UID)}, Key: string(np.UID),
		Since: lineage.FormatTime(honest.CreationTimestamp.Time), Message: np.Spec.Explanation,
		Pool:     &auditlog.Object{Kind: "MachineDeployment", Namespace: f.ns, Name: "workers", UID: string(pool.UID)},
		Machine:  &auditlog.Object{Kind: "Machine", Namespace: f.ns, Name: np.Spec.Machine.Name, UID: string(np.Spec.Machine.UID)},
		Evidence: "Reported", Reported: &auditlog.Report{Config: says(rec)[api.LabelConfig], Commit: rec.Commit},
		Is: &auditlog.Configuration{
			InputDigest: rec.Digests.Input, Profile: "osp-x", Version: "v1.0.0", ProfileDigest: rec.ObjectDigest, Repository: rec.Repository, Path: rec.Path,
			Commit: rec.Commit, Change: rec.Change, SelectedBy: rec.SelectedBy, Author: "Ada [31m<ada@example.com>", Signature: "commit by ada, ssh SHA256:x", Engine: "v1",
		},
	}
	if diff := cmp.Diff(want, joined[0].Event); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lies := f.told(path, auditlog.NodeDisputed, liar)
	if len(lies) != 1 || lies[0].ID != disputed.Status.Journaled.Disputed || lies[0].Reason != api.ReasonNeverCurrent || lies[0].Reported.Config != "0123456789ab" || !strings.Contains(lies[0].Message, "never had") {
		t.Errorf("of the disagreement it says %+v", lies)
	}
	f.do(f.client.Delete(t.Context(), liar))
	gone := f.until(disputed.Name, func(np *api.NodeProvenance) bool {
		return np.Status.Journaled.Removed != ""
	})
	if removed := f.told(path, auditlog.NodeRemoved, liar); len(removed) != 1 || removed[0].ID != gone.Status.Journaled.Removed || gone.Status.Journaled.Joined == "" {
		t.Errorf("of the removal it says %+v, and the object %+v", removed, gone.Status.Journaled)
	}

	before := len(f.lines(path))
	f.stop()
	f.audited(path)
	f.start()
	last := f.join(f.machine(pool), nil)
	f.until(lineage.ProvenanceName(last.Name, last.UID), func(np *api.NodeProvenance) bool { return np.Status.Journaled != nil })
	if n := len(f.lines(path)); n != before+2 { // the start, and who joined
		t.Errorf("%d lines after a restart, want %d: %+v", n, before+2, f.lines(path)[before:])
	}
}

// Objects that exist when the audit log is enabled are reported, and so is an entry that
// a killed controller had written without recording its id; the second time it has the
// same id.
func TestAuditLogLater(t *testing.T) {
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	stays, leaves := f.join(f.machine(pool), map[string]string{api.LabelConfig: "0123456789ab"}), f.join(f.machine(pool), nil)
	f.provenance(stays)
	f.provenance(leaves)
	f.do(f.client.Delete(t.Context(), leaves))
	f.until(lineage.ProvenanceName(leaves.Name, leaves.UID), func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
	f.stop()

	f.audited(path)
	f.start()
	complete := func(node *corev1.Node) *api.NodeProvenance {
		t.Helper()
		return f.until(lineage.ProvenanceName(node.Name, node.UID), func(np *api.NodeProvenance) bool {
			j := np.Status.Journaled
			return j != nil && j.Joined != "" && (node == stays && j.Disputed != "" || node == leaves && j.Removed != "")
		})
	}
	complete(leaves)
	np := complete(stays)
	for kind, node := range map[auditlog.Kind]*corev1.Node{auditlog.NodeJoined: stays, auditlog.NodeDisputed: stays, auditlog.NodeRemoved: leaves} {
		if got := f.told(path, kind, node); len(got) != 1 || got[0].Since == "" || kind == auditlog.NodeDisputed && (got[0].Message == "" || got[0].Reason == "") {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	f.stop()

	f.do(f.client.Status().Patch(t.Context(), np, client.RawPatch(types.MergePatchType, []byte(`{"status":{"journaled":null}}`))))
	f.audited(path)
	f.start()
	complete(stays)
	for _, kind := range []auditlog.Kind{auditlog.NodeJoined, auditlog.NodeDisputed} {
		got := f.told(path, kind, stays)
		if len(got) != 2 {
			t.Fatalf("%s: %+v", kind, got)
		}
		if diff := cmp.Diff(got[0].Event, got[1].Event); diff != "" || got[0].ID != got[1].ID {
			t.Errorf("%s is told again as something else:\n%s", kind, diff)
		}
	}
}

// A Node can be deleted before the cache has its NodeProvenance: the deletion is recorded when the
// NodeProvenance arrives.
func TestNodeDeletedBeforeItsProvenanceArrives(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	f.serve(pool, "v1.0.0")
	f.start()
	late := f.provenance(f.join(f.machine(pool), nil)).DeepCopy()
	late.ObjectMeta = metav1.ObjectMeta{Name: lineage.ProvenanceName("deleted-before", "late"), Labels: late.Labels}
	late.Spec.Node.Name, late.Spec.Node.UID = "deleted-before", "late"
	f.do(f.client.Create(t.Context(), late))
	f.until(late.Name, func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
}

// A NodeProvenance is deleted only after the audit log has it. While the log cannot be
// written all remain, and new nodes still get one.
func TestRetentionWaitsForTheAuditLog(t *testing.T) {
	f := newFleet(t)
	f.keep = Retention{Age: time.Hour, Max: 1000}
	volume := filepath.Join(t.TempDir(), "volume")
	path := filepath.Join(volume, "audit.log")
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	node := f.join(f.machine(pool), says(rec))
	whole := f.provenance(node)
	f.do(f.client.Delete(t.Context(), node))
	f.until(whole.Name, func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
	f.stop()
	f.clock.Step(2 * time.Hour)

	f.audited(path) // there is no such folder
	f.start()
	f.eventually("one is held", func() error {
		if held := f.counted("osm_gitops_node_provenances_held", ""); held != 1 {
			return fmt.Errorf("%v are held", held)
		}
		return nil
	})
	f.provenance(f.join(f.machine(pool), nil))
	var old api.NodeProvenance
	f.do(f.client.Get(t.Context(), client.ObjectKey{Name: whole.Name}, &old))
	f.stop()

	f.do(os.Mkdir(volume, 0o700))
	f.audited(path)
	f.start()
	f.eventually("the NodeProvenance is deleted", func() error {
		err := f.client.Get(t.Context(), client.ObjectKey{Name: whole.Name}, &api.NodeProvenance{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	dropped := f.told(path, auditlog.ProvenanceDropped, node)
	if len(dropped) != 1 {
		t.Fatalf("it was dropped and is not in the audit log: %+v", f.lines(path))
	}
	var kept struct {
		Spec   api.NodeProvenanceSpec
		Status api.NodeProvenanceStatus
	}
	f.do(json.Unmarshal(dropped[0].Record, &kept))
	if diff := cmp.Diff(whole.Spec, kept.Spec); diff != "" || kept.Status.Removed == nil {
		t.Errorf("not all of it is (-want +got):\n%s%+v", diff, kept.Status)
	}
	f.eventually("one is counted as dropped", func() error {
		if n := f.counted("osm_gitops_node_provenances_dropped_total", ""); n != 1 {
			return fmt.Errorf("%v were counted", n)
		}
		return nil
	})
}

// A stale cache can report a node as deleted although the object says otherwise: nothing
// is written about it, and it remains.
func TestDroppedOnlyIfRemoved(t *testing.T) {
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	node := f.join(f.machine(pool), says(rec))
	stale := f.provenance(node).DeepCopy()
	now := metav1.NewTime(f.clock.Now())
	stale.Status.Removed = &now
	r := &Reconciler{Reader: observe.Reader{Worker: kubeclient.Cluster{Client: f.client, Live: f.client}}, AuditLog: f.journal}
	if drop, err := r.recordBeforeDeletion(t.Context(), stale); drop || err != nil {
		t.Errorf("it is dropped: %v (err %v)", drop, err)
	}
	if got := f.told(path, auditlog.ProvenanceDropped, node); len(got) != 0 {
		t.Errorf("the audit log says %+v", got)
	}
}

// counted returns a metric of the fleet, for one value of its first label if it has one.
func (f *fleet) counted(name, label string) float64 {
	f.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.metrics)
	families, err := registry.Gather()
	f.do(err)
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || strings.Contains(m.String(), `"`+label+`"`)) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// Counts of nodes follow their creation, changes and deletion.
func TestCounts(t *testing.T) {
	f := newFleet(t)
	f.audited(filepath.Join(t.TempDir(), "audit.log"))
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	reported := f.join(f.machine(pool), says(rec))
	f.provenance(reported)
	f.provenance(f.join(f.machine(pool), map[string]string{api.LabelConfig: "0123456789ab"}))
	want := func(all map[string]float64) {
		t.Helper()
		f.eventually("the metrics are as wanted", func() error {
			var wrong []error
			for key, n := range all {
				name, label, _ := strings.Cut(key, " ")
				if got := f.counted("osm_gitops_"+name, label); got != n {
					wrong = append(wrong, fmt.Errorf("%s is %v, want %v", key, got, n))
				}
			}
			return errors.Join(wrong...)
		})
	}
	want(map[string]float64{"nodes": 2, "nodes Reported": 1, "nodes Inferred": 1, "nodes Yes": 0, "nodes_disputed": 1, "node_provenances there": 2, "node_provenances gone": 0, "node_provenance_ready": 1})
	f.serve(pool, "v2.0.0")
	want(map[string]float64{"nodes Yes": 2, "nodes No": 0})
	f.do(f.client.Delete(t.Context(), reported))
	want(map[string]float64{"nodes": 1, "node_provenances there": 1, "node_provenances gone": 1})
	f.do(f.client.Delete(t.Context(), &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: lineage.ProvenanceName(reported.Name, reported.UID)}}))
	want(map[string]float64{"node_provenances gone": 0, "nodes Reported": 0})
}

// A condition that an earlier release removed is no reason to lose the entry.
func TestAuditDetailsWithoutCondition(t *testing.T) {
	np := &api.NodeProvenance{Status: api.NodeProvenanceStatus{Match: &api.NodeMatch{
		State: api.MatchStateDiffers, Differences: []api.MatchDifference{{Path: "/etc/a", Reason: api.DifferenceMode}},
	}}}
	entry := auditlog.Event{Kind: auditlog.NodeDiffers}
	addDetails(&entry, np, np)
	if entry.Reason != api.ReasonEdited || !strings.Contains(entry.Message, "/etc/a") {
		t.Errorf("reason %q, message %q", entry.Reason, entry.Message)
	}
}
