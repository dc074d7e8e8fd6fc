package pools

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// A pool that retains its configuration, because it is suspended or because it cannot have what it
// requests, gets exactly that configuration again after a user deleted or edited it.
func TestConfigOfLastGoodComesBack(t *testing.T) {
	const gone = "OperatingSystemConfig POOL-config was missing"
	remove := func(f *fixture) { f.delete(f.config()) }
	edit := func(f *fixture) { f.patch(f.config(), `{"metadata":{"annotations":{"gitops.k8c.io/record":"{}"}}}`) }
	refuse := func(f *fixture) { f.ask(map[string]string{api.AnnotationVersionPin: "v9"}) }
	suspend := func(f *fixture) { f.ask(map[string]string{api.AnnotationSuspend: "true"}) }
	for name, c := range map[string]struct {
		keep  func(f *fixture)
		spoil func(f *fixture)
		seen  bool // by the watch
		told  string
	}{
		"suspended, deleted":  {suspend, remove, false, gone},
		"suspended, edited":   {suspend, edit, false, "annotation gitops.k8c.io/record of OperatingSystemConfig POOL-config"},
		"refused, deleted":    {refuse, remove, false, gone},
		"refused, edited":     {refuse, edit, false, "annotation gitops.k8c.io/record of OperatingSystemConfig POOL-config"},
		"another pool, seen":  {func(f *fixture) { suspend(f); f.kubelet("1.35.1", "1") }, remove, true, gone},
		"another pool, edits": {func(f *fixture) { suspend(f); f.kubelet("1.35.1", "1") }, edit, true, "annotation gitops.k8c.io/record of OperatingSystemConfig POOL-config"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.offers(f.r.Namespace, "v1.0.0")
			f.version(f.r.Namespace, "v1.0.0")
			f.version(f.r.Namespace, "v1.1.0")
			f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationMDRevision: "1"})
			f.offers(f.r.Namespace, "v1.1.0")
			c.keep(f)
			before, documents := f.config(), f.documents()
			told := f.told()
			c.spoil(f)
			watch := deletedRecordHandler{handler.Funcs{}, &f.r.cache, &f.r.ownWrites}
			if c.seen {
				var now osm.OperatingSystemConfig
				if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(before), &now); apierrors.IsNotFound(err) {
					watch.Delete(t.Context(), event.DeleteEvent{Object: before}, nil)
				} else {
					watch.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: &now}, nil)
				}
			}
			f.reconcile()
			after := f.config()
			for _, key := range []string{api.AnnotationRecord, api.AnnotationVersion, api.AnnotationSelectedBy, api.AnnotationInputDigest} {
				if was, is := before.Annotations[key], after.Annotations[key]; is != was {
					t.Errorf("annotation %s of the configuration was\n%s, and is\n%s", key, was, is)
				}
			}
			for i, s := range f.documents() {
				if !bytes.Equal(s.Data[api.UserDataKey], documents[i].Data[api.UserDataKey]) {
					t.Errorf("%s has another content", s.Name)
				}
			}
			all := strings.ReplaceAll(strings.Join(told.told, "\n"), f.pool.Name+"-"+f.pool.Namespace, "POOL")
			if !strings.Contains(all, "restored changed objects: "+c.told) || strings.Contains(all, api.EventConfigRotated) {
				t.Errorf("told was %q", all)
			}
			f.reconcile()
			if f.r.cache.get(f.pool).deleted.record != "" {
				t.Error("the record is still remembered")
			}
			versions := f.versions()
			if f.reconcile(); len(told.told) > 1 || strings.Join(versions, " ") != strings.Join(f.versions(), " ") {
				t.Errorf("another run wrote, or told %q", told.told)
			}
		})
	}
}

// If the record of a suspended pool is lost, the pool retains its documents; they follow its
// revision and its tokens, and an event reports the loss.
func TestLostConfigOfSuspendedPool(t *testing.T) {
	f := newFixture(t)
	f.offers(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.1.0")
	f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationSuspend: "true", api.AnnotationMDRevision: "1"})
	f.offers(f.r.Namespace, "v1.1.0")
	documents, told := f.documents(), f.told()
	f.kubelet("1.35.1", "2")
	f.delete(f.config())
	f.ask(map[string]string{api.AnnotationMDRevision: "3"})
	for i, s := range f.documents() {
		if !bytes.Equal(s.Data[api.UserDataKey], documents[i].Data[api.UserDataKey]) || s.Annotations[api.AnnotationRevisionFor] != "3" {
			t.Errorf("%s has another content, or is for revision %s", s.Name, s.Annotations[api.AnnotationRevisionFor])
		}
	}
	told.saidLast(t, "the pool is suspended by annotation gitops.k8c.io/suspend, and what it has cannot be rendered again", "its record is not stored elsewhere")
	f.ask(map[string]string{api.AnnotationSuspend: ""})
	f.has("resumed", "osp-a-v1.1.0", strings.Repeat("5", 40))
}

// A record that was edited in part comes back as well, once, and is not archived.
func TestEditedFactOfRecordIsPutBack(t *testing.T) {
	const everything = "a fact, the digest and its annotation"
	alone := func(rec *render.Record) {
		rec.Commit = strings.Repeat("e", 40)
		rec.Digests.Input = rec.InputDigest()
	}
	for edit, of := range map[string]func(rec *render.Record){
		"the commit":            func(rec *render.Record) { rec.Commit = strings.Repeat("e", 40) },
		"what selected it":      func(rec *render.Record) { rec.SelectedBy = strings.Repeat("e", 40) },
		"a fact and the digest": alone,
		everything:              alone,
	} {
		for name, keep := range map[string]map[string]string{
			"served":    {},
			"suspended": {api.AnnotationSuspend: "true"},
			"refused":   {api.AnnotationVersionPin: "v9"},
		} {
			t.Run(edit+", "+name, func(t *testing.T) {
				f := newFixture(t)
				path := filepath.Join(t.TempDir(), "audit.log")
				f.audited(path)
				f.offers(f.r.Namespace, "v1.0.0")
				f.version(f.r.Namespace, "v1.0.0")
				f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationMDRevision: "1"})
				f.ask(keep)
				before, documents, records := f.config(), f.documents(), len(f.records())
				was := before.Annotations[api.AnnotationRecord]
				rec := recordOf(before)
				of(&rec)
				changed := before.DeepCopy()
				changed.Annotations[api.AnnotationRecord] = string(must(render.MarshalRecord(rec)))
				delete(changed.Annotations, api.AnnotationJournaled)
				if edit == everything {
					changed.Annotations[api.AnnotationInputDigest] = rec.Digests.Input
				}
				if changed.Annotations[api.AnnotationRecord] == was {
					t.Fatal("nothing was edited")
				}
				must(nil, f.client.Patch(t.Context(), changed, client.MergeFrom(before)))
				told := f.told()
				f.reconcile()
				if is := f.config().Annotations[api.AnnotationRecord]; is != was {
					t.Errorf("the record was\n%s, and is\n%s", was, is)
				}
				for i, s := range f.documents() {
					if s.ResourceVersion != documents[i].ResourceVersion {
						t.Errorf("%s was written", s.Name)
					}
				}
				if all := strings.Join(told.told, "\n"); !strings.Contains(all, "restored changed objects: annotation gitops.k8c.io/record") || strings.Contains(all, api.EventConfigRotated) {
					t.Errorf("told was %q", all)
				}
				if now := len(f.records()); now != records {
					t.Errorf("%d records are archived, and were %d", now, records)
				}
				for _, line := range f.lines(path) {
					for _, c := range []*auditlog.Configuration{line.Was, line.Is} {
						if c != nil && strings.Contains(c.Commit+c.SelectedBy+c.InputDigest, strings.Repeat("e", 40)) || c != nil && edit == everything && c.InputDigest == rec.Digests.Input {
							t.Errorf("the audit log has the edited record: %+v", line)
						}
					}
				}
				f.reconcile()
				versions := f.versions()
				told.told = nil
				if f.reconcile(); len(told.told) > 0 || !slices.Equal(versions, f.versions()) {
					t.Errorf("another run wrote, or told %q", told.told)
				}
			})
		}
	}
}

// An edited record is not archived or logged when its pool is deleted.
func TestEditedRecordOfDeletedPool(t *testing.T) {
	f := newFixture(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	f.reconcile()
	before := f.config()
	rec := recordOf(before)
	rec.Commit = strings.Repeat("e", 40)
	rec.Digests.Input = rec.InputDigest()
	changed := before.DeepCopy()
	changed.Annotations[api.AnnotationRecord] = string(must(render.MarshalRecord(rec)))
	changed.Annotations[api.AnnotationInputDigest] = rec.Digests.Input
	must(nil, f.client.Patch(t.Context(), changed, client.MergeFrom(before)))
	f.deletePool()
	if records := f.records(); len(records) > 0 {
		t.Errorf("archived was %s", records[0].Data.Raw)
	}
	lines := f.lines(path)
	if last := lines[len(lines)-1]; last.Kind != auditlog.ConfigurationDeleted || last.Was.UID != string(before.UID) || last.Was.InputDigest != "" || last.Was.Commit != "" {
		t.Errorf("the audit log says %+v, of %+v", last, last.Was)
	}
}

// A record that was edited after the cache had it is not the one that was decided about.
func TestRecordThatIsEditedMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	for _, key := range []string{api.AnnotationRecord, api.AnnotationInputDigest, api.AnnotationSelectedBy} {
		cached := f.config()
		if _, err := f.r.reader().readCompleteConfig(t.Context(), cached); err != nil {
			t.Fatal(err)
		}
		f.patch(cached.DeepCopy(), `{"metadata":{"annotations":{"`+key+`":"edited"}}}`)
		if _, err := f.r.reader().readCompleteConfig(t.Context(), cached); !errors.Is(err, fault.ErrRaced) {
			t.Errorf("annotation %s was edited: got %v, want a race", key, err)
		}
	}
}

// A run that was interrupted before the first Secret of a new configuration is completed. If the
// next version was published meanwhile, it follows the version that machines booted from: there is
// no record of the version between, because no machine had it.
func TestConfigThatNoSecretFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		then func(f *fixture)
		want string
	}{
		"the controller starts again": {func(*fixture) {}, "v1.1.0"},
		"the next version":            {func(f *fixture) { f.offers(f.r.Namespace, "v1.2.0") }, "v1.2.0"},
		"back to the first":           {func(f *fixture) { f.offers(f.r.Namespace, "v1.0.0") }, "v1.0.0"},
		"refused meanwhile":           {func(f *fixture) { f.ask(map[string]string{api.AnnotationVersionPin: "v9"}) }, "v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			path := filepath.Join(t.TempDir(), "audit.log")
			f.audited(path)
			for _, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
				f.version(f.r.Namespace, version)
			}
			f.offers(f.r.Namespace, "v1.0.0")
			f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationMDRevision: "1"})
			first := f.config()
			f.offers(f.r.Namespace, "v1.1.0")
			f.r.Worker.Client = refusingUpdates{digesting{f.client}, namesOf(f.pool).Provisioning}
			if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); !errors.Is(err, errCutOff) {
				t.Fatalf("it was not cut off: %v", err)
			}
			f.r.Worker.Client = digesting{f.client}
			if got := recordOf(f.config()).Version; got != "v1.1.0" {
				t.Fatalf("the configuration is of %s", got)
			}
			f.r.cache = poolCache{}
			c.then(f)
			f.reconcile()
			osc := f.config()
			if rec := recordOf(osc); rec.Version != c.want || osc.Annotations[api.AnnotationReplaces] != string(first.UID) {
				t.Errorf("the configuration is of %s and replaces %s, want %s and %s", rec.Version, osc.Annotations[api.AnnotationReplaces], c.want, first.UID)
			}
			for _, s := range f.documents() {
				if s.Annotations[api.AnnotationInputDigest] != recordOf(osc).Digests.Input {
					t.Errorf("%s does not follow", s.Name)
				}
			}
			if records := f.records(); len(records) != 1 || archive.Record(&records[0]).Version != "v1.0.0" {
				t.Errorf("%d records are archived", len(records))
			}
			want := "ConfigurationRotated v1.0.0 " + c.want + " "
			if c.want == "v1.0.0" { // machines never had another
				want = "ConfigurationCreated - v1.0.0 restored"
			}
			if changes := f.changes(path); len(changes) != 2 || !strings.HasPrefix(changes[1], want) {
				t.Errorf("the audit log says %q, want %q at last", changes, want)
			}
			for _, line := range f.changes(path) {
				if c.want != "v1.1.0" && strings.Contains(line, "v1.1.0") {
					t.Errorf("the audit log says %q", line)
				}
			}
		})
	}
}

// A pool whose profile is taken from another object of the same content retains its
// configuration.
func TestSameContentOfAnotherObject(t *testing.T) {
	f := newFixture(t)
	f.offers(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationMDRevision: "1"})
	f.reconcile()
	before, told := f.versions(), f.told()
	seen, err := f.r.observe(t.Context(), f.pool)
	if err != nil {
		t.Fatal(err)
	}
	seen.desired.Profile.Object = "elsewhere/osp-a-v1.0.0"
	p, err := f.r.planner().planDesired(seen)
	if err != nil || p.osc != nil || len(p.drifted) > 0 {
		t.Errorf("decided to write %v, healed %q (err %v)", p.osc, p.drifted, err)
	}
	if !slices.Equal(before, f.versions()) || len(told.told) > 0 {
		t.Errorf("told was %q", told.told)
	}
}

// A new suspended pool, of which an interrupted controller created only the provisioning Secret,
// still gets its first configuration.
func TestSuspendedPoolThatWasCutOff(t *testing.T) {
	f := newFixture(t)
	f.ask(map[string]string{api.AnnotationSuspend: "true"})
	f.delete(f.config())
	f.delete(f.documents()[1])
	f.r.Settings.NodeHTTPProxy = "http://proxy.example.com"
	for range 2 {
		f.reconcile()
	}
	f.documents()
	f.config()
}

// Annotations of a configuration that repeat its record are restored from the record.
func TestContradictedRecord(t *testing.T) {
	f := newFixture(t)
	f.offers(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationMDRevision: "1"})
	f.ask(map[string]string{api.AnnotationSuspend: "true"})
	was := f.config()
	for what, edit := range map[string]func(osc *osm.OperatingSystemConfig){
		"or gitops.k8c.io/selected-by of": func(osc *osm.OperatingSystemConfig) {
			f.patch(osc, `{"metadata":{"annotations":{"gitops.k8c.io/selected-by":"evil"}}}`)
		},
		"or gitops.k8c.io/input-digest of": func(osc *osm.OperatingSystemConfig) {
			f.patch(osc, `{"metadata":{"annotations":{"gitops.k8c.io/input-digest":"evil"}}}`)
		},
	} {
		told := f.told()
		edit(f.config())
		f.reconcile()
		told.saidLast(t, "restored changed objects: annotation gitops.k8c.io/record "+what)
		f.reconcile()
		is := f.config()
		if is.Annotations[api.AnnotationRecord] != was.Annotations[api.AnnotationRecord] || is.Annotations[api.AnnotationSelectedBy] != was.Annotations[api.AnnotationSelectedBy] || is.Annotations[api.AnnotationInputDigest] != was.Annotations[api.AnnotationInputDigest] {
			t.Errorf("%s: it has record %s, selected by %s, and digest %s", what, is.Annotations[api.AnnotationRecord], is.Annotations[api.AnnotationSelectedBy], is.Annotations[api.AnnotationInputDigest])
		}
	}
}
