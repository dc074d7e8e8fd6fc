package pools

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
)

// archivedVersions are those of the pool's archived records, oldest first.
func (f *fixture) archivedVersions() (out []string) {
	for _, r := range f.records() {
		out = append(out, archive.Record(&r).Version)
	}
	return out
}

func (f *fixture) wantArchived(why string, want ...string) {
	f.t.Helper()
	if got := f.archivedVersions(); !slices.Equal(got, want) {
		f.t.Errorf("%s: archived are %v, want %v", why, got, want)
	}
}

func (f *fixture) sweep() time.Time {
	f.t.Helper()
	next, err := f.r.newArchive().DeleteExpired(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return next
}

// Records beyond the limit are deleted, the longest unused first, unless the provenance of a node
// names them. Those of a deleted pool remain for the retention.
func TestHistory(t *testing.T) {
	f := newFixture(t)
	f.r.History = archive.Retention{Limit: 2, Gone: 24 * time.Hour}
	f.publish("v1.0.1", "of v1.0.1")
	f.reconcile()
	for _, version := range []string{"v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0"} {
		f.rotate(version)
	}
	f.rotate("v1.1.0") // in use again, and so the newest but one when it is replaced
	f.rotate("v1.5.0")
	f.wantArchived("before a sweep", "v1.0.1", "v1.2.0", "v1.3.0", "v1.4.0", "v1.1.0")
	named := f.records()[1] // v1.2.0
	f.provenance(named.Annotations[api.AnnotationInputDigest])
	if next := f.sweep(); !next.IsZero() {
		t.Errorf("a pool that is there has records until %s", next)
	}
	f.wantArchived("a limit of two and one that is named", "v1.2.0", "v1.4.0", "v1.1.0")

	f.clock.Step(time.Minute)
	f.delete(f.pool)
	f.reconcile()
	f.wantArchived("the pool is gone", "v1.2.0", "v1.4.0", "v1.1.0", "v1.5.0")
	gone := f.clock.Now()
	f.clock.Step(time.Hour)
	f.r.History.Limit = 3
	next := f.sweep()
	f.wantArchived("an hour later", "v1.2.0", "v1.4.0", "v1.1.0", "v1.5.0")
	if !next.After(f.clock.Now()) || next.After(gone.Add(f.r.History.Gone)) {
		t.Errorf("the next sweep is at %s, the pool went at %s", next, gone)
	}
	f.clock.SetTime(next)
	f.clock.Step(time.Minute)
	if next = f.sweep(); next.IsZero() {
		t.Error("nobody looks after the last record")
	}
	f.clock.SetTime(gone.Add(f.r.History.Gone))
	f.sweep()
	f.wantArchived("after the retention", "v1.2.0")
}

// provenance says of a node that it may come from a configuration.
func (f *fixture) provenance(inputDigest string) {
	f.t.Helper()
	now := metav1.NewTime(f.clock.Now())
	np := &api.NodeProvenance{
		ObjectMeta: metav1.ObjectMeta{Name: f.pool.Namespace},
		Spec: api.NodeProvenanceSpec{
			Node:     api.ProvenanceNode{Name: "node", UID: "node", Joined: now},
			Machine:  api.ProvenanceMachine{Namespace: f.pool.Namespace, Name: "machine", UID: "machine", Created: now},
			Pool:     api.ProvenancePool{Namespace: f.pool.Namespace, Name: f.pool.Name, UID: f.pool.UID, MachineSet: "set"},
			Evidence: api.EvidenceUnknown,
			Window:   api.ProvenanceWindow{Until: now},
			Possible: []api.PossibleConfiguration{{InputDigest: inputDigest, Profile: "osp-hand", Version: "v1.2.0", From: now}},
		},
	}
	f.ensure(np)
	f.t.Cleanup(func() { _ = f.client.Delete(context.WithoutCancel(f.t.Context()), np) })
}

// settingsMaps are the names of the stored settings, which are their digests.
func (f *fixture) settingsMaps() (out []string) {
	f.t.Helper()
	var list corev1.ConfigMapList
	if err := f.client.List(f.t.Context(), &list, client.InNamespace(f.r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}); err != nil {
		f.t.Fatal(err)
	}
	for _, cm := range list.Items {
		out = append(out, cm.Name)
	}
	return out
}

// Settings remain as long as a record or a configuration has them, and as long as a pool can be
// about to get them.
func TestUnusedSettingsGo(t *testing.T) {
	f := newFixture(t)
	f.r.History = archive.Retention{Limit: 1, Gone: time.Hour}
	f.reconcile()
	for n := range 3 {
		f.clock.Step(time.Minute)
		f.r.Settings.PauseImage = fmt.Sprintf("pause:%d", n)
		f.reconcile()
	}
	var other corev1.ConfigMap
	other.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "other", Labels: map[string]string{api.LabelManagedBy: api.FieldManager}, UID: types.UID("")}
	f.ensure(&other)
	f.r.archived.Changed.Store(false)
	f.sweep()
	if got := f.settingsMaps(); len(got) != 5 {
		t.Errorf("just after they were kept there are %v", got)
	}
	if !f.r.archived.Changed.Load() {
		t.Error("nobody looks again at settings that are too young now")
	}
	f.clock.Step(3 * archive.SettingsTrust)
	if f.r.archived.Changed.Store(false); f.sweep().IsZero() && f.r.archived.Changed.Load() {
		t.Error("there is more to look at")
	}
	records := f.records()
	if len(records) != 1 {
		t.Fatalf("there are %d records", len(records))
	}
	want := []string{
		lineage.SettingsName(recordOf(f.config()).SettingsDigest), lineage.SettingsName(records[0].Annotations[api.AnnotationSettingsDigest]), "other",
	}
	got := f.settingsMaps()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("kept are %v, want %v", got, want)
	}
}

// A pool that moves on while records are listed has its settings neither among those of
// configurations nor, by then, among those of records: they stay all the same.
func TestSettingsOfAPoolThatMovesOn(t *testing.T) {
	f := newFixture(t)
	f.r.History = archive.Retention{Limit: 1, Gone: time.Hour}
	f.reconcile()
	first := lineage.SettingsName(recordOf(f.config()).SettingsDigest)
	f.clock.Step(3 * archive.SettingsTrust)
	f.r.Management.Live = afterRecords{f.client, sync.OnceFunc(func() {
		f.r.Settings.PauseImage = "pause:2"
		f.reconcile()
	})}
	f.sweep()
	if records := f.records(); len(records) != 1 || lineage.SettingsName(records[0].Annotations[api.AnnotationSettingsDigest]) != first {
		t.Fatalf("the records are %+v", records)
	}
	if got := f.settingsMaps(); !slices.Contains(got, first) {
		t.Errorf("kept are %v, and the record has %s", got, first)
	}
}

// afterRecords does something once the archived records were listed.
type afterRecords struct {
	client.Client
	do func()
}

func (a afterRecords) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := a.Client.List(ctx, list, opts...)
	if list.GetObjectKind().GroupVersionKind().Kind == "ControllerRevisionList" {
		a.do()
	}
	return err
}
