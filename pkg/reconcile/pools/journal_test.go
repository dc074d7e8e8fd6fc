package pools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// audited makes the fixture write an audit log, like a new run of the controller.
func (f *fixture) audited(path string) *auditlog.Writer {
	f.t.Helper()
	j := &auditlog.Writer{
		Path: path, Clock: f.clock, Log: logr.Discard(),
		Began: auditlog.Event{Kind: auditlog.ControllerStarted, Object: auditlog.Object{Kind: "Controller", Name: "osm-gitops"}, Key: path},
	}
	f.r.AuditLog = j
	f.t.Cleanup(j.Close)
	return j
}

// lines are those about the pool, of a chain that is whole.
func (f *fixture) lines(path string) []auditlog.Entry {
	f.t.Helper()
	var out []auditlog.Entry
	_, err := auditlog.Verify([]string{path}, "", func(e auditlog.Entry) {
		if e.Object.Name == f.pool.Name {
			out = append(out, e)
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// changes are the kinds of lines with the versions before and after.
func (f *fixture) changes(path string) []string {
	f.t.Helper()
	var out []string
	for _, e := range f.lines(path) {
		text := string(e.Kind)
		for _, c := range []*auditlog.Configuration{e.Was, e.Is} {
			if c == nil {
				text += " -"
			} else {
				text += " " + c.Version
			}
		}
		out = append(out, text+" "+e.Reason)
	}
	return out
}

func (f *fixture) toldAre(path string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.changes(path)); diff != "" {
		f.t.Errorf("the audit log (-want +got):\n%s", diff)
	}
}

// deletePool deletes the pool and has that seen to.
func (f *fixture) deletePool() {
	f.t.Helper()
	if err := f.client.Delete(f.t.Context(), f.pool); err != nil {
		f.t.Fatal(err)
	}
	f.reconcile()
}

// A configuration is logged once each time it is created, replaced, restored and deleted; the
// object names its entry.
func TestAuditLog(t *testing.T) {
	f := newFixture(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	f.reconcile()
	first := f.config()
	f.reconcile()
	f.rotate("v1.1.0")
	f.reconcile()
	f.r.Settings.PauseImage = "registry.example.com/pause:3.10"
	f.reconcile()
	if err := f.client.Delete(t.Context(), f.config()); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	last := f.config()
	f.deletePool()
	f.toldAre(path, "ConfigurationCreated - v1.0.0 ", "ConfigurationRotated v1.0.0 v1.1.0 profile", "ConfigurationRotated v1.1.0 v1.1.0 settings",
		"ConfigurationCreated - v1.1.0 restored", "ConfigurationDeleted v1.1.0 - ")
	lines := f.lines(path)
	if first.Annotations[api.AnnotationJournaled] != lines[0].ID || last.Annotations[api.AnnotationJournaled] != lines[3].ID {
		t.Errorf("the objects name %q and %q, the lines are %+v", first.Annotations[api.AnnotationJournaled], last.Annotations[api.AnnotationJournaled], lines)
	}
	rec := recordOf(first)
	want := auditlog.Event{
		Kind: auditlog.ConfigurationCreated, Key: string(first.UID), Since: lineage.FormatTime(first.CreationTimestamp.Time),
		Object: auditlog.Object{Kind: "MachineDeployment", Namespace: f.pool.Namespace, Name: f.pool.Name, UID: string(f.pool.UID)},
		Is: &auditlog.Configuration{
			UID: string(first.UID), InputDigest: rec.Digests.Input, Profile: "osp-hand", Version: "v1.0.0", ProfileDigest: rec.ObjectDigest, Engine: rec.Engine,
		},
	}
	if diff := cmp.Diff(want, lines[0].Event); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Provisioning continues while the audit log cannot be written. Missing entries are written later,
// in order; an entry that was written but not recorded on the object has the same id.
func TestAuditLogAway(t *testing.T) {
	f := newFixture(t)
	volume := filepath.Join(t.TempDir(), "volume")
	path := filepath.Join(volume, "audit.log")
	j := f.audited(path)
	if wait := f.reconcile().RequeueAfter; wait == 0 || wait > 2*auditLogRetry {
		t.Errorf("it is tried again after %s", wait)
	}
	f.rotate("v1.1.0")
	f.rotate("v1.2.0")
	if f.config().Annotations[api.AnnotationJournaled] != "" {
		t.Error("the object names a line that is not there")
	}
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	j.Close() // what waits is written when the controller ends
	f.audited(path)
	f.reconcile()
	want := []string{"ConfigurationCreated - v1.0.0 ", "ConfigurationRotated v1.0.0 v1.1.0 ", "ConfigurationRotated v1.1.0 v1.2.0 "}
	f.toldAre(path, want...)

	// Killed between the line and the annotation.
	osc := f.config()
	if err := f.client.Patch(t.Context(), osc, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"gitops.k8c.io/journaled":null}}}`))); err != nil {
		t.Fatal(err)
	}
	f.audited(filepath.Join(volume, "other.log"))
	f.reconcile()
	again := f.lines(filepath.Join(volume, "other.log"))
	if lines := f.lines(path); len(again) != 1 || again[0].ID != lines[2].ID || f.config().Annotations[api.AnnotationJournaled] != again[0].ID {
		t.Errorf("it is told again as %+v, was %+v", again, lines[2])
	}
}

// A pool without a profile any more, and one that another controller had served.
func TestAuditLogOfATakeover(t *testing.T) {
	f := newLegacyFixture(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	f.reconcile()
	var osc osm.OperatingSystemConfig
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &osc); err != nil {
		t.Fatal(err)
	}
	version := recordOf(&osc).Version
	f.toldAre(path, "ConfigurationCreated - "+version+" ", "PoolTakenOver - "+version+" ")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+api.AnnotationOSP+`":null}}}`))
	if err := f.client.Patch(t.Context(), f.pool, patch); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	lines := f.lines(path)
	if last := lines[len(lines)-1]; last.Kind != auditlog.ConfigurationDeleted || last.Message == "" {
		t.Errorf("the last line is %+v", last)
	}
}
