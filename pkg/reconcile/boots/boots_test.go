package boots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apicache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

const canary = "c4nary-credential"

// fixture is a pool of a built-in profile on the real API server, with the controller.
type fixture struct {
	t       *testing.T
	client  client.Client
	ns      string
	clock   *clocktesting.FakeClock
	events  *events.FakeRecorder
	metrics *metrics.Metrics
	log     string
	stop    func()
	shard   shard.Shard
	refuse  atomic.Int32 // the number of status writes that get a conflict

	pool   *machines.MachineDeployment
	set    *machines.MachineSet
	config string // 12 digits
	script render.InspectedFile
	line   int // of the script, with command
	count  int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := cluster.Shared(t)
	f := &fixture{
		t: t, client: c.Client(t), ns: c.Namespace(t), clock: clocktesting.NewFakeClock(time.Now()), events: events.NewFakeRecorder(1000),
		metrics: metrics.New(), log: filepath.Join(t.TempDir(), "audit"), stop: func() {},
	}
	f.do(client.IgnoreAlreadyExists(f.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})))
	f.pool = &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "pool", Annotations: map[string]string{api.AnnotationOSP: "osp-ubuntu"}}}
	f.create(f.pool)
	f.set = &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "pool-1", Annotations: map[string]string{api.AnnotationMDRevision: "1"}, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: machines.GroupVersion.String(), Kind: "MachineDeployment", Name: f.pool.Name, UID: f.pool.UID,
	}}}}
	f.create(f.set)

	doc, in := builtin(t, "osp-ubuntu", "ubuntu", "hetzner")
	in.Pool.Namespace, in.Pool.Name = f.ns, f.pool.Name
	in.Profile.Provenance.Repository = catalog.Builtin().Repository
	rec := in.Record()
	for _, file := range inspected(t, doc, in).Provisioning.Files {
		for i, line := range strings.Split(file.Content, "\n") {
			if strings.HasPrefix(file.Content, "#!") && strings.HasPrefix(strings.TrimSpace(line), "systemctl daemon-reload") {
				f.script, f.line = file, i+1
			}
		}
	}
	if f.line == 0 {
		t.Fatal("the profile has no line to fail at")
	}
	text, err := json.Marshal(rec)
	f.do(err)
	f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: lineage.SettingsName(rec.SettingsDigest)}, Data: map[string]string{lineage.SettingsKey: string(in.RedactedSettingsJSON())}})
	f.create(&osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: lineage.NamesOf(client.ObjectKeyFromObject(f.pool)).Config, Annotations: map[string]string{
			api.AnnotationPool: f.ns + "/" + f.pool.Name, api.AnnotationRecord: string(text), api.AnnotationInputDigest: rec.Digests.Input, api.AnnotationRevisionFor: "1",
		}},
		Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "hetzner"}},
	})
	f.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(client.ObjectKeyFromObject(f.pool)).Inputs},
		StringData: map[string]string{"a": `{"proxy":"` + canary + `"}`},
	})
	f.config = render.ShortDigest(rec.Digests.Input)
	t.Cleanup(func() {
		f.stop()
		ctx := context.WithoutCancel(t.Context())
		for _, obj := range []client.Object{f.report(ctx), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(client.ObjectKeyFromObject(f.pool)).Inputs}}} {
			if err := client.IgnoreNotFound(f.client.Delete(ctx, obj)); err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

func (f *fixture) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) create(obj client.Object) {
	f.t.Helper()
	f.do(f.client.Create(f.t.Context(), obj))
}

// start runs the controller until stop, or until the test ends.
func (f *fixture) start() {
	f.t.Helper()
	scheme, err := cluster.Scheme()
	f.do(err)
	mgr, err := ctrl.NewManager(cluster.Shared(f.t).Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{DefaultTransform: nodecache.TrimTransform(), ByObject: nodecache.WorkerObjects()},
	})
	f.do(err)
	here := kubeclient.Cluster{Client: conflicting{mgr.GetClient(), &f.refuse}, Live: mgr.GetAPIReader()}
	log := &auditlog.Writer{Path: f.log, Clock: f.clock, Began: auditlog.Event{Kind: auditlog.ControllerStarted, Key: fmt.Sprint(f.count)}}
	f.count++
	r := &Reconciler{
		Reader: observe.Reader{Management: here, Worker: here, Namespace: f.ns}, Recorder: f.events, Clock: f.clock, Metrics: f.metrics, AuditLog: log, Shard: f.shard,
		Profiles: &verify.Verifier{Management: mgr.GetAPIReader(), Worker: mgr.GetAPIReader(), Namespace: f.ns, Builtin: catalog.Builtin(), FollowedOnly: true},
	}
	reports, err := cache.New(mgr.GetConfig(), cache.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultNamespaces: map[string]cache.Config{api.NamespaceCloudInitSettings: {}}})
	f.do(err)
	f.do(mgr.Add(reports))
	f.do(mgr.Add(log))
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			f.t.Errorf("the manager: %v", err)
		}
	}()
	f.stop = func() { cancel(); <-ended; log.Close(); f.stop = func() {} }
	// As in the product, the manager runs already, and has the objects in its cache.
	for _, kind := range []client.Object{&machines.MachineSet{}, &machines.Machine{}} {
		_, err := mgr.GetCache().GetInformer(ctx, kind)
		f.do(err)
	}
	if !reports.WaitForCacheSync(ctx) {
		f.t.Fatal("the cache of reports is not filled")
	}
	f.do(nodecache.IndexMachines(ctx, mgr.GetFieldIndexer()))
	f.do(r.Setup(ctx, mgr, reports))
}

// conflicting answers writes of a status with a conflict, as if a machine had reported meanwhile.
type conflicting struct {
	client.Client
	times *atomic.Int32
}

func (c conflicting) Status() client.SubResourceWriter {
	return conflictingStatus{c.Client.Status(), c.times}
}

type conflictingStatus struct {
	client.SubResourceWriter
	times *atomic.Int32
}

func (c conflictingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if c.times.Add(-1) >= 0 {
		return apierrors.NewConflict(schema.GroupResource{Resource: "bootreports"}, obj.GetName(), errors.New("a machine reported"))
	}
	return c.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

// machine creates a Machine of the pool.
func (f *fixture) machine(name string) *machines.Machine {
	f.t.Helper()
	m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: machines.GroupVersion.String(), Kind: "MachineSet", Name: f.set.Name, UID: f.set.UID,
	}}}}
	f.create(m)
	return m
}

func (f *fixture) joins(m *machines.Machine) {
	f.t.Helper()
	f.do(f.client.Status().Patch(f.t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"status":{"nodeRef":{"name":"`+m.Name+`"}}}`))))
}

func (f *fixture) report(ctx context.Context) *api.BootReport {
	return &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(client.ObjectKeyFromObject(f.pool))}}
}

// eventually waits for a state of the report.
func (f *fixture) eventually(what string, check func(*api.BootReport) error) *api.BootReport {
	f.t.Helper()
	var report *api.BootReport
	err := testenv.Until(f.t.Context(), time.Minute, what, func() error {
		report = f.report(f.t.Context())
		err := f.client.Get(f.t.Context(), client.ObjectKeyFromObject(report), report)
		if apierrors.IsNotFound(err) {
			report = nil
		} else if err != nil {
			return err
		}
		return check(report)
	})
	if err != nil {
		f.t.Fatalf("%v: %+v", err, report)
	}
	return report
}

func exists(report *api.BootReport) error {
	if report == nil {
		return errors.New("there is no report")
	}
	return nil
}

// entry is a failure at the line of the script.
func (f *fixture) entry(machine string, edits ...func(*api.MachineBoot)) api.MachineBoot {
	e := api.MachineBoot{
		Machine: machine, Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: 1, Config: f.config, File: f.script.Path, Line: int32(f.line),
		Command: "systemctl daemon-reload", ExitStatus: 1, Log: "token=" + canary, BootID: "01234567-89ab-cdef-0123-456789abcdef", Time: "1970-01-01T00:00:00Z",
	}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

// sends applies the entries of a machine, as the machine does.
func (f *fixture) sends(machine string, entries ...api.MachineBoot) {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "BootReport", "metadata": map[string]any{"name": lineage.AccessName(client.ObjectKeyFromObject(f.pool))}, "spec": api.BootReportSpec{Machines: entries},
	})
	f.do(err)
	f.do(f.client.Patch(f.t.Context(), f.report(f.t.Context()), client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(machine), client.ForceOwnership))
}

// concluded waits until the status has as many entries.
func (f *fixture) concluded(n int) []api.MachineBootStatus {
	f.t.Helper()
	return f.eventually(fmt.Sprintf("%d conclusions", n), func(report *api.BootReport) error {
		if report == nil || len(report.Status.Machines) != n {
			return errors.New("not concluded")
		}
		return nil
	}).Status.Machines
}

// told returns the events so far.
func (f *fixture) told() []string {
	var out []string
	for {
		select {
		case e := <-f.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// tells waits until there are some events: they follow the status. It fails if there are more.
func (f *fixture) tells(n int) {
	f.t.Helper()
	var said []string
	f.eventually(fmt.Sprintf("%d events", n), func(*api.BootReport) error {
		if said = append(said, f.told()...); len(said) < n {
			return fmt.Errorf("there are %q", said)
		}
		return nil
	})
	if len(said) > n {
		f.t.Errorf("events %q", said)
	}
}

// A machine that fails names the line of the profile, once in an event and in the audit log, which
// outlives it; no credential and no log text leaves the report (security.md 46).
func TestFailedBoot(t *testing.T) {
	f := newFixture(t)
	f.start()
	m := f.machine("pool-1-a")
	f.eventually("the report", exists)
	f.refuse.Store(1) // what is interrupted is counted once
	f.sends(m.Name, f.entry(m.Name, func(e *api.MachineBoot) {
		e.Command = "systemctl daemon-reload"
		e.Log = "<script>\x1b[31m{{ .Token }} password=" + canary
	}))
	got := f.concluded(1)[0]
	text, err := os.ReadFile("../../../profiles/osp-ubuntu.yaml")
	f.do(err)
	if c := got.Cause; c == nil || !strings.HasSuffix(c.File, "osp-ubuntu.yaml") || c.Near || !strings.Contains(strings.Split(string(text), "\n")[c.Line-1], "systemctl daemon-reload") ||
		c.NodeFile != f.script.Path || int(c.NodeLine) != f.line || c.ExitStatus != 1 {
		t.Errorf("the cause is %+v", c)
	}
	if got.MachineUID != m.UID || got.Version == "" || got.Profile != "osp-ubuntu" || got.Config != f.config || got.Since.IsZero() {
		t.Errorf("concluded %+v", got)
	}
	// The next attempts have the same cause: the status follows, nothing is said again.
	f.sends(m.Name, f.entry(m.Name, func(e *api.MachineBoot) { e.Attempt = 3 }))
	f.eventually("the third attempt", func(r *api.BootReport) error {
		if s := r.Status.Machines; len(s) != 1 || s[0].Attempt != 3 || !s[0].Since.Equal(&got.Since) {
			return errors.New("not yet")
		}
		return nil
	})
	other := f.machine("pool-1-b")
	f.sends(other.Name, f.entry(other.Name))
	f.concluded(2)
	said := f.told()
	if len(said) != 2 || said[0] != said[1] || !strings.Contains(said[0], api.EventBootFailing) || !strings.Contains(said[0], "osp-ubuntu.yaml:") || strings.Contains(said[0], "script>") {
		t.Errorf("events %q", said)
	}

	// The credentials of the pool, and what looks like one, are masked, and text is cleaned.
	f.sends(m.Name, f.entry(m.Name, func(e *api.MachineBoot) {
		e.Command, e.Line = "curl -u "+canary+" <b>\x1b[31m\u202e -H 'Authorization: Bearer eyJhbGciOi.eyJzdWIi.c2ln' abcdef.0123456789abcdef", 1
		e.File = "/opt/" + canary
	}))
	changed := f.eventually("another cause", func(r *api.BootReport) error {
		if s := r.Status.Machines; len(s) != 2 || s[0].Cause == nil || !strings.HasPrefix(s[0].Cause.Command, "curl") {
			return errors.New("not yet")
		}
		return nil
	}).Status.Machines[0]
	if changed.Cause.File != "" || changed.Cause.NodeLine != 1 {
		t.Errorf("the cause of an unknown file is %+v", changed.Cause)
	}
	status, err := json.Marshal(changed)
	f.do(err)
	audit, err := os.ReadFile(f.log)
	f.do(err)
	all := string(status) + string(audit) + strings.Join(f.told(), "")
	for _, bad := range []string{canary, "eyJhbGciOi", "0123456789abcdef", "\x1b", "\u202e", `\u202e`, "{{"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q is in %s", bad, all)
		}
	}

	// Entries of machines that joined or are deleted go; the audit log remains.
	f.joins(m)
	f.do(f.client.Delete(t.Context(), other))
	f.eventually("an empty report", func(r *api.BootReport) error {
		if r == nil || len(r.Spec.Machines)+len(r.Status.Machines) > 0 {
			return errors.New("not trimmed")
		}
		return nil
	})
	if n := strings.Count(string(audit), `"BootFailing"`); n != 3 {
		t.Errorf("the audit log has %d entries of 3: %s", n, audit)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.metrics)
	families, err := registry.Gather()
	f.do(err)
	counted := map[string]float64{}
	for _, family := range families {
		for _, s := range family.GetMetric() {
			switch family.GetName() {
			case "osm_gitops_boots_total":
				for _, l := range s.GetLabel() {
					if l.GetName() == "outcome" {
						counted[l.GetValue()] += s.GetCounter().GetValue()
					}
				}
			case "osm_gitops_boot_seconds":
				counted["seconds"] += float64(s.GetHistogram().GetSampleCount())
			}
		}
	}
	if counted[metrics.BootJoined] != 1 || counted[metrics.BootFailing] != 2 || counted[metrics.BootLost] != 1 || counted["seconds"] != 1 {
		t.Errorf("counted %v", counted)
	}

	f.do(f.client.Delete(t.Context(), f.pool))
	f.eventually("no report of a deleted pool", func(r *api.BootReport) error {
		if r != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// A compromised node fills the report of its pool, and nothing comes of entries that are not of a
// young machine of the pool without a Node (security.md 46).
func TestForgedReports(t *testing.T) {
	f := newFixture(t)
	f.start()
	m := f.machine("pool-1-a")
	f.eventually("the report", exists)
	joined := f.machine("pool-1-joined")
	f.joins(joined)
	f.sends("eve",
		f.entry("of-another-pool"), f.entry(joined.Name),
		f.entry(m.Name, func(e *api.MachineBoot) { e.Config = "000000000000" }),
	)
	f.eventually("the removal of what is of no booting machine", func(r *api.BootReport) error {
		if len(r.Spec.Machines) != 1 || r.Spec.Machines[0].Machine != m.Name {
			return errors.New("not trimmed")
		}
		return nil
	})
	// The status of the next report shows that the one before was read.
	f.sends(m.Name, f.entry(m.Name, func(e *api.MachineBoot) { e.Stage = api.BootStageBootstrap }))
	if got := f.concluded(1)[0]; got.Stage != api.BootStageBootstrap {
		t.Errorf("a configuration that the pool never had counts: %+v", got)
	}
	// After the time of a boot nothing new counts, but what was concluded remains.
	f.clock.Step(bootLimit + time.Minute) // the API server's clock can be a second ahead of this one
	f.sends(m.Name, f.entry(m.Name, func(e *api.MachineBoot) { e.Stage, e.Attempt = api.BootStageBootstrap, 9 }), f.entry(m.Name, func(e *api.MachineBoot) { e.Stage = api.BootStageJoin }))
	f.sends("eve", f.entry("of-another-pool"))
	f.eventually("the late reports to be read", func(r *api.BootReport) error {
		if slices.ContainsFunc(r.Spec.Machines, func(e api.MachineBoot) bool { return e.Machine == "of-another-pool" }) || len(r.Spec.Machines) < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if got := f.concluded(1)[0]; got.Attempt != 1 {
		t.Errorf("a late report counts: %+v", got)
	}
	f.tells(1)
}

// A machine that has the name of an earlier one is another machine, and a controller that starts
// again concludes what it had not.
func TestReportsOfTwoMachinesWithOneName(t *testing.T) {
	f := newFixture(t)
	f.start()
	first := f.machine("pool-1-a")
	f.eventually("the report", exists)
	f.sends(first.Name, f.entry(first.Name))
	f.concluded(1)
	f.stop()
	f.do(f.client.Delete(t.Context(), first))
	second := f.machine(first.Name)
	f.start()
	f.eventually("the earlier machine's report to go", func(r *api.BootReport) error {
		if len(r.Spec.Machines)+len(r.Status.Machines) > 0 {
			return errors.New("it is there")
		}
		return nil
	})
	f.stop()
	f.sends(second.Name, f.entry(second.Name, func(e *api.MachineBoot) { e.BootID = "fedcba98-89ab-cdef-0123-456789abcdef" }))
	f.start()
	if got := f.concluded(1)[0]; got.MachineUID != second.UID || got.Cause == nil {
		t.Errorf("concluded %+v", got)
	}
	// Another failure of the same boot after a success.
	f.sends(second.Name, f.entry(second.Name, func(e *api.MachineBoot) {
		e.BootID, e.Outcome, e.File, e.Line, e.Command = "fedcba98-89ab-cdef-0123-456789abcdef", api.BootSucceeded, "", 0, ""
	}))
	f.eventually("the success", func(r *api.BootReport) error {
		if s := r.Status.Machines; len(s) != 1 || s[0].Outcome != api.BootSucceeded || s[0].Cause == nil {
			return errors.New("not yet")
		}
		return nil
	})
}

// A controller that ends between a report and its status loses nothing. What it wrote to the audit log
// before, it can only repeat with the same id.
func TestControllerEndsBeforeTheStatus(t *testing.T) {
	f := newFixture(t)
	f.start()
	m := f.machine("pool-1-a")
	f.eventually("the report", exists)
	f.refuse.Store(1000)
	f.sends(m.Name, f.entry(m.Name))
	audited := func() map[string]bool {
		text, err := os.ReadFile(f.log)
		f.do(err)
		ids := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			var e auditlog.Event
			f.do(json.Unmarshal([]byte(line), &e))
			if e.Kind == auditlog.BootFailing {
				ids[e.ID()] = true
			}
		}
		return ids
	}
	f.eventually("the entry of the audit log", func(*api.BootReport) error {
		if len(audited()) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	f.stop()
	f.sends(m.Name, f.entry(m.Name, func(e *api.MachineBoot) { e.Attempt = 2 }))
	f.refuse.Store(0)
	f.start()
	if got := f.concluded(1)[0]; got.Attempt != 2 || got.Cause == nil || got.Cause.Line == 0 {
		t.Errorf("concluded %+v", got)
	}
	if ids := audited(); len(ids) != 1 {
		t.Errorf("the audit log has entries %v", ids)
	}
}

// An audit log that cannot be written delays no conclusion. Its entry follows, also if the machine
// joined before.
func TestAuditLogFails(t *testing.T) {
	f := newFixture(t)
	f.do(os.Mkdir(f.log, 0o700)) // in place of the file
	f.start()
	first, second := f.machine("pool-1-a"), f.machine("pool-1-b")
	f.eventually("the report", exists)
	f.sends(first.Name, f.entry(first.Name))
	f.concluded(1) // a report meanwhile would interrupt that run, which then emits its event again
	f.sends(second.Name, f.entry(second.Name))
	for _, got := range f.concluded(2) {
		if got.Cause == nil || got.Cause.Line == 0 || got.Journaled != "" {
			t.Errorf("concluded %+v", got)
		}
	}
	f.tells(1) // they have the same cause
	f.joins(second)
	f.concluded(1)
	f.do(os.Remove(f.log))
	ids := func() map[string]bool {
		text, err := os.ReadFile(f.log)
		if err != nil {
			return nil
		}
		out := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			var e auditlog.Event
			f.do(json.Unmarshal([]byte(line), &e))
			if e.Kind == auditlog.BootFailing {
				out[e.ID()] = true
			}
		}
		return out
	}
	f.eventually("the entry of the machine that joined", func(*api.BootReport) error {
		if len(ids()) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	f.sends(first.Name, f.entry(first.Name, func(e *api.MachineBoot) { e.Attempt = 2 })) // sooner than the retry
	got := f.eventually("the entry of the other", func(r *api.BootReport) error {
		if r.Status.Machines[0].Journaled == "" {
			return errors.New("there is none")
		}
		return nil
	}).Status.Machines[0]
	if all := ids(); len(all) != 2 || !all[got.Journaled] {
		t.Errorf("the audit log has %v, not %s", all, got.Journaled)
	}
	if said := f.told(); len(said) > 0 {
		t.Errorf("said again %q", said)
	}
}

// The failure of a version remains after its machine is deleted, also for a controller that starts
// again, until a machine joins with that version.
func TestFailureOutlivesItsMachine(t *testing.T) {
	f := newFixture(t)
	f.start()
	first := f.machine("pool-1-a")
	f.eventually("the report", exists)
	f.sends(first.Name, f.entry(first.Name, func(e *api.MachineBoot) { e.Attempt = 3 }))
	failed := f.concluded(1)
	f.do(f.client.Delete(t.Context(), first))
	f.eventually("the entry to go", func(r *api.BootReport) error {
		if len(r.Spec.Machines) > 0 {
			return errors.New("it is there")
		}
		return nil
	})
	f.stop()
	f.start()
	second := f.machine("pool-1-b")
	f.sends(second.Name, f.entry(second.Name, func(e *api.MachineBoot) { e.Stage = api.BootStageBootstrap }))
	if got := f.concluded(2); got[0].MachineUID != first.UID || *got[0].Cause != *failed[0].Cause || got[1].MachineUID != second.UID {
		t.Errorf("concluded %+v", got)
	}
	f.joins(second)
	f.eventually("the failure to end", func(r *api.BootReport) error {
		if len(r.Status.Machines) > 0 {
			return errors.New("it is there")
		}
		return nil
	})
}

// Machines that never join do not fill the report for those that boot.
func TestLateEntriesMakeRoom(t *testing.T) {
	f := newFixture(t)
	var entries []api.MachineBoot
	for n := range maxEntries {
		entries = append(entries, f.entry(f.machine(fmt.Sprint("pool-1-", n)).Name, func(e *api.MachineBoot) { e.Attempt = 3 }))
	}
	f.start()
	f.eventually("the report", exists)
	f.sends("all", entries...)
	f.concluded(maxEntries)
	f.clock.Step(bootLimit + time.Minute) // the API server's clock can be a second ahead of this one
	f.stop()
	f.start()
	if got := f.eventually("room", func(r *api.BootReport) error {
		if len(r.Spec.Machines) > maxLate {
			return errors.New("there is none")
		}
		return nil
	}); len(got.Status.Machines) != maxEntries {
		t.Errorf("%d conclusions remain", len(got.Status.Machines))
	}
}

// Pools of other shards are left to their controllers.
func TestOtherShard(t *testing.T) {
	f := newFixture(t)
	var err error
	f.shard, err = shard.Parse("shard=b")
	f.do(err)
	f.start()
	f.machine("pool-1-a")
	f.do(f.client.Patch(t.Context(), f.pool, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"shard":"b"}}}`))))
	f.machine("pool-1-b")
	report := f.eventually("the report of the shard", exists)
	if created, moved := report.CreationTimestamp, f.pool.CreationTimestamp; created.Before(&moved) {
		t.Errorf("created %s, before the pool was in the shard", created)
	}
}

// What a pool's machines report neither delays other pools nor fills the audit log (security.md 46).
func TestPace(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	path := filepath.Join(t.TempDir(), "audit")
	log := &auditlog.Writer{Path: path, Clock: clock, Began: auditlog.Event{Kind: auditlog.ControllerStarted}}
	defer log.Close()
	r := &Reconciler{Clock: clock, AuditLog: log, Recorder: events.NewFakeRecorder(1000)}
	runs := func(pool string) (n int) {
		for n < 1000 && r.mayRun(pool) == nil {
			n++
		}
		return n
	}
	boot := 0
	audited := func(pool string, n int) int {
		t.Helper()
		md := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pool}}
		before, _ := os.ReadFile(path) // there is none at first
		for range n {
			boot++
			status := api.MachineBootStatus{BootID: fmt.Sprint(boot), Cause: &api.BootCause{}}
			p := plan{status: []api.MachineBootStatus{status}, failures: []failure{{status: status, firstOfCause: true}}}
			seen := &observed{md: md, now: clock.Now(), report: &api.BootReport{}}
			missing := r.unlogged(seen, p.status)
			if pending := r.reportFailures(t.Context(), seen, p, &missing); pending != (p.status[0].Journaled == "") {
				t.Errorf("pending %t: %+v", pending, p.status)
			}
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(after[len(before):]), `"BootFailing"`)
	}
	for _, pool := range []string{"evil", "other"} {
		if n := runs(pool); n != writeBurst {
			t.Errorf("%d runs of pool %s", n, pool)
		}
		if n := audited(pool, 2*auditBurst); n != auditBurst {
			t.Errorf("%d audit entries of pool %s", n, pool)
		}
	}
	clock.Step(3 * auditInterval)
	if n := audited("evil", 10); n != 3 {
		t.Errorf("%d audit entries after 3 minutes", n)
	}
	clock.Step(2 * time.Second)
	if n := runs("evil"); n != writeBurst {
		t.Errorf("%d runs after %s", n, 3*auditInterval)
	}
	clock.Step(2 * time.Second)
	if n := runs("evil"); n != 2*writeRate {
		t.Errorf("%d runs after 2 seconds", n)
	}
	if n := len(r.Recorder.(*events.FakeRecorder).Events); n != 2*auditBurst+3 {
		t.Errorf("%d events", n)
	}
}

// unreadable has no profile that can be read.
type unreadable struct {
	reads int
	err   error
}

func (u *unreadable) ReadProfile(context.Context, types.NamespacedName, render.Record) (*profile.Document, error) {
	u.reads++
	return nil, u.err
}

// A profile that cannot be read, or that its repository lacks, is read once a minute: each report would
// fetch otherwise.
func TestUnreadProfile(t *testing.T) {
	for name, err := range map[string]error{"an error of Git": errors.New("the server does not answer"), "no file": nil} {
		clock, profiles := clocktesting.NewFakeClock(time.Now()), &unreadable{err: err}
		r := &Reconciler{Clock: clock, Profiles: profiles, known: apicache.NewLRUExpireCacheWithClock(maxKnown, clock)}
		for want := 1; want <= 2; want++ {
			for range 3 {
				if doc, got := r.readFileAtCommit(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, render.Record{}); doc != nil || !errors.Is(got, err) {
					t.Errorf("%s: %v, %v", name, doc, got)
				}
			}
			if profiles.reads != want {
				t.Errorf("%s: read %d times, not %d", name, profiles.reads, want)
			}
			clock.Step(faultRetry + time.Second)
		}
	}
}

// Pools without machines that boot get no report.
func TestNoReport(t *testing.T) {
	f := newFixture(t)
	seen := &observed{md: f.pool, now: time.Now(), machines: map[string]machine{}}
	if p := newPlan(seen); p.create {
		t.Error("a pool without machines gets a report")
	}
	m := f.machine("pool-1-a")
	seen.machines[m.Name] = machine{m, "1"}
	if p := newPlan(seen); !p.create {
		t.Error("a pool with a machine that boots gets no report")
	}
	seen.now = seen.now.Add(bootLimit)
	if p := newPlan(seen); p.create {
		t.Error("a pool with a machine that never joined gets a report")
	}
	seen.now = time.Now()
	f.joins(m)
	if p := newPlan(seen); p.create {
		t.Error("a pool whose machine joined gets a report")
	}
}
