package pools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// records lists the pool's archived records, oldest first.
func (f *fixture) records() []appsv1.ControllerRevision {
	f.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := f.client.List(f.t.Context(), &list, client.InNamespace(f.r.Namespace), client.MatchingLabels{api.LabelPool: archive.PoolLabelValue(poolKey(f.pool))}); err != nil {
		f.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// handProfile is that of the fixture's pool.
func (f *fixture) handProfile() *osm.OperatingSystemProfile {
	f.t.Helper()
	osp := &osm.OperatingSystemProfile{}
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: "osp-hand"}, osp); err != nil {
		f.t.Fatal(err)
	}
	return osp
}

// publish gives the pool's profile another version, with files of this content.
func (f *fixture) publish(version, data string) {
	f.t.Helper()
	f.osp("osp-hand", version, func(spec *osm.OperatingSystemProfileSpec) {
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = data
	})
}

// rotate publishes and reconciles.
func (f *fixture) rotate(version string) {
	f.t.Helper()
	f.clock.Step(time.Minute)
	f.publish(version, "of "+version)
	f.reconcile()
	if got := recordOf(f.config()).Version; got != version {
		f.t.Fatalf("the configuration is of %s, want %s", got, version)
	}
}

// The input of a generation outlives it, with the times at which the pool used it; a new pool
// archives nothing.
func TestArchive(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	if got := f.records(); len(got) != 0 {
		t.Fatalf("a new pool has %d archived records", len(got))
	}
	first := f.config()
	f.rotate("v1.1.0")
	got := f.records()
	if len(got) != 1 {
		t.Fatalf("there are %d records", len(got))
	}
	rec, want := got[0], recordOf(first)
	if rec.Name != "pool-"+f.pool.Namespace+"-"+render.ShortDigest(want.Digests.Input) {
		t.Errorf("its name is %s", rec.Name)
	}
	var held render.Record
	if err := json.Unmarshal(rec.Data.Raw, &held); err != nil || held.Digests != want.Digests || held.Pool.Name != "pool" {
		t.Errorf("it holds %s (err %v)", rec.Data.Raw, err)
	}
	for _, m := range []struct {
		have      map[string]string
		key, want string
	}{
		{rec.Labels, api.LabelManagedBy, api.FieldManager},
		{rec.Labels, api.LabelPool, f.pool.Namespace + "_pool"},
		{rec.Labels, api.LabelProfile, "osp-hand"},
		{rec.Labels, api.LabelVersion, "v1.0.0"},
		{rec.Annotations, api.AnnotationPool, poolKey(f.pool)},
		{rec.Annotations, api.AnnotationInputDigest, want.Digests.Input},
		{rec.Annotations, api.AnnotationSettingsDigest, want.SettingsDigest},
	} {
		if m.have[m.key] != m.want {
			t.Errorf("%s is %q, want %q", m.key, m.have[m.key], m.want)
		}
	}
	stood := lineage.DecodeIntervals(rec.Annotations)
	if len(stood) != 1 || !stood[0].From.Equal(&first.CreationTimestamp) || stood[0].Until.Unix() != f.clock.Now().Unix() {
		t.Errorf("it stood %+v", stood)
	}

	// The end of one interval is the start of the next, even if the clocks differ.
	second := f.config()
	if second.Annotations[api.AnnotationReplaces] != string(first.UID) {
		t.Errorf("it replaces %q, want %q", second.Annotations[api.AnnotationReplaces], first.UID)
	}
	f.rotate("v1.2.0")
	if got = f.records(); len(got) != 2 {
		t.Fatalf("there are %d records", len(got))
	}
	stood = lineage.DecodeIntervals(got[1].Annotations)
	if len(stood) != 1 || stood[0].UID != second.UID || stood[0].Replaces != first.UID || stood[0].Revision != second.Annotations[api.AnnotationRevisionFor] {
		t.Errorf("the second stood %+v", stood)
	}
}

// A pool that returns to what it had reuses the record: it gets one more interval.
func TestArchiveOfARevert(t *testing.T) {
	f := newFixture(t)
	f.publish("v1.0.1", "of v1.0.1")
	f.reconcile()
	f.rotate("v1.1.0")
	f.rotate("v1.0.1")
	f.rotate("v1.1.0")
	got := f.records()
	if len(got) != 2 {
		t.Fatalf("there are %d records", len(got))
	}
	one, two := got[1], got[0]
	if archive.Record(&one).Version != "v1.0.1" || archive.Record(&two).Version != "v1.1.0" {
		t.Fatalf("the newest record is of %s, then %s", archive.Record(&one).Version, archive.Record(&two).Version)
	}
	if a, b := len(lineage.DecodeIntervals(one.Annotations)), len(lineage.DecodeIntervals(two.Annotations)); a != 2 || b != 1 {
		t.Errorf("there are %d and %d intervals", a, b)
	}
}

// An interruption between two writes loses no record: the record of each former generation is
// on its configuration or archived, at any moment. The next run completes the interrupted one, with
// one interval for each generation.
func TestArchiveCutOff(t *testing.T) {
	for writes := int64(0); ; writes++ {
		f := newFixture(t)
		f.reconcile()
		first := recordOf(f.config()).Digests.Input
		f.publish("v1.1.0", "of v1.1.0")
		f.clock.Step(time.Minute)

		cut := &cutOff{digesting: digesting{f.client}, left: writes}
		f.r.Management.Client, f.r.Worker.Client = cut, cut
		_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
		f.r.Management.Client, f.r.Worker.Client = digesting{f.client}, digesting{f.client}
		if now := recordOf(f.configOrNil()).Digests.Input; now != first && !slices.ContainsFunc(f.records(), func(r appsv1.ControllerRevision) bool {
			return archive.Record(&r).Digests.Input == first
		}) {
			t.Errorf("cut off after %d writes, the record of the first generation is nowhere", writes)
		}
		f.clock.Step(time.Minute)
		f.reconcile()
		if got := f.records(); len(got) != 1 || len(lineage.DecodeIntervals(got[0].Annotations)) != 1 {
			t.Errorf("cut off after %d writes, the records are %+v", writes, got)
		}
		if got := recordOf(f.config()).Version; got != "v1.1.0" {
			t.Errorf("cut off after %d writes, the configuration is of %s", writes, got)
		}
		if err == nil {
			if writes < 5 { // record, old and new configuration, two Secrets
				t.Errorf("a rotation has %d writes", writes)
			}
			return
		}
	}
}

// cutOff is a process that is killed after some writes.
type cutOff struct {
	digesting
	left int64
}

var errCutOff = errors.New("cut off")

func (c *cutOff) write(do func() error) error {
	if atomic.AddInt64(&c.left, -1) < 0 {
		return errCutOff
	}
	return do()
}

func (c *cutOff) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.write(func() error { return c.digesting.Create(ctx, obj, opts...) })
}

func (c *cutOff) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.write(func() error { return c.digesting.Update(ctx, obj, opts...) })
}

func (c *cutOff) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.write(func() error { return c.digesting.Patch(ctx, obj, patch, opts...) })
}

func (c *cutOff) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.write(func() error { return c.digesting.Delete(ctx, obj, opts...) })
}

// configOrNil is the pool's configuration, nil if there is none.
func (f *fixture) configOrNil() *osm.OperatingSystemConfig {
	f.t.Helper()
	osc := &osm.OperatingSystemConfig{}
	found, err := kubeclient.Find(f.t.Context(), f.client, client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, osc)
	if err != nil {
		f.t.Fatal(err)
	}
	if !found {
		return nil
	}
	return osc
}

// A pool whose configuration is deleted and whose profile is broken is maintained from the
// archived record for days: its bootstrap token expires and is replaced, the cluster's address
// changes, and its documents follow.
func TestLastGoodFromTheArchive(t *testing.T) {
	for _, archived := range []bool{false, true} {
		f := newFixture(t)
		f.r.Settings.NodeHTTPProxy = "http://user:secret@proxy.example.com"
		f.publish("v1.0.1", "{{ .BootstrapKubeconfig }} {{ .HTTPProxy }}")
		f.reconcile()
		first := f.config()
		broken := f.handProfile()
		broken.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-broken"}
		broken.Spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .NetworkConfig.CIDR }}"
		f.ensure(broken)
		f.patch(f.pool, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":"osp-broken"}}}`)
		if archived {
			if err := f.r.newWriter().archiveRecord(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			f.delete(first)
		}
		for day := range 5 {
			f.clock.Step(24 * time.Hour) // the controller did not run: the token has expired each time
			f.r.OverrideServer = fmt.Sprintf("https://day%d:6443", day)
			f.reconcile()
			document := string(f.secret(namesOf(f.pool).Provisioning).Data[api.UserDataKey])
			data := token.LongestLived(f.tokens(t.Context()), f.clock.Now()).Data
			current := string(data["token-id"]) + "." + string(data["token-secret"])
			for what, want := range map[string]string{"token": current, "server": f.r.OverrideServer, "proxy": f.r.Settings.NodeHTTPProxy} {
				if !strings.Contains(document, want) {
					t.Errorf("archived=%t, day %d: the document has not the current %s", archived, day, what)
				}
			}
		}
		if got := recordOf(f.config()); got.Object != "osp-hand" || got.Version != "v1.0.1" {
			t.Errorf("archived=%t: the configuration is of %q %s", archived, got.Object, got.Version)
		}
	}
}

// An edited record is invalid and is not archived.
func TestEditedRecordIsNotArchived(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	f.patch(f.config(), `{"metadata":{"annotations":{"gitops.k8c.io/record":`+
		strconv.Quote(strings.Replace(f.config().Annotations[api.AnnotationRecord], "osp-hand", "osp-evil", 2))+`}}}`)
	if recordOf(f.config()).Object != "osp-evil" {
		t.Fatal("the record was not edited")
	}
	f.rotate("v1.1.0")
	if got := f.records(); len(got) != 0 {
		t.Errorf("archived was %s", got[0].Data.Raw)
	}
}

// If another object has the name of a record, a longer name is used.
func TestArchiveNameIsTaken(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	names := lineage.RecordNames(keyOf(f.pool), recordOf(f.config()).Digests.Input)
	other := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: names[0]}, Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)}}
	f.ensure(other)
	f.rotate("v1.1.0")
	if got := f.records(); len(got) != 1 || got[0].Name != names[1] {
		t.Errorf("the records are %+v", got)
	}
}

// Every name that a pool can have is possible as the name of a record.
func TestRecordNames(t *testing.T) {
	digest := "v1:sha256:" + strings.Repeat("0123456789abcdef", 4)
	long := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("n", 63)}}
	long.Name = strings.Repeat("m", validation.DNS1123SubdomainMaxLength-len(namesOf(long).Provisioning))
	for _, name := range lineage.RecordNames(keyOf(long), digest) {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	if got := lineage.RecordNames(types.NamespacedName{Namespace: "shop", Name: "web"}, digest)[0]; got != "web-shop-0123456789ab" {
		t.Errorf("got %s", got)
	}
	for _, pool := range []string{"shop/web", "a-b/c", "a/b-c", poolKey(long), long.Namespace + "/" + long.Name + "x"} {
		if problems := validation.IsValidLabelValue(archive.PoolLabelValue(pool)); len(problems) > 0 {
			t.Errorf("%s: %v", archive.PoolLabelValue(pool), problems)
		}
	}
	if archive.PoolLabelValue("a-b/c") == archive.PoolLabelValue("a/b-c") || archive.PoolLabelValue(poolKey(long)) == archive.PoolLabelValue(poolKey(long)+"x") {
		t.Error("two pools have one label")
	}
}
