package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// fleet is a pool on the real API server, with a controller that a test starts and stops.
type fleet struct {
	t      *testing.T
	client client.Client
	ns     string
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	writes atomic.Int64 // write requests of the controller
	reads  atomic.Int64 // its requests for one Node
	keep   Retention
	stop   func()

	journal *auditlog.Writer // nil for none
	metrics *metrics.Metrics
	n       int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	c := cluster.Shared(t)
	f := &fleet{
		t: t, client: c.Client(t), ns: c.Namespace(t), clock: clocktesting.NewFakeClock(time.Now()),
		events: events.NewFakeRecorder(1000), keep: Retention{Age: 24 * time.Hour, Max: 1000}, stop: func() {},
	}
	t.Cleanup(func() {
		f.stop()
		ctx := context.WithoutCancel(t.Context())
		for _, all := range []client.Object{&corev1.Node{}, &api.NodeProvenance{}} {
			if err := f.client.DeleteAllOf(ctx, all); err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

func (f *fleet) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) create(obj client.Object) {
	f.t.Helper()
	f.do(f.client.Create(f.t.Context(), obj))
}

// start runs the controller until stop, or until the test ends.
func (f *fleet) start() {
	f.t.Helper()
	scheme, err := cluster.Scheme()
	f.do(err)
	cfg := rest.CopyConfig(cluster.Shared(f.t).Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &f.writes, &f.reads} })
	skip := true
	objects := nodecache.WorkerObjects()
	objects[&appsv1.ControllerRevision{}] = nodecache.Records(f.ns)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache:      cache.Options{DefaultTransform: nodecache.TrimTransform(), ByObject: objects},
	})
	f.do(err)
	here := kubeclient.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	r := &Reconciler{Reader: observe.Reader{Management: here, Worker: here, Namespace: f.ns, Engine: render.NewEngine()}, Recorder: f.events, Clock: f.clock, Retention: f.keep, Metrics: f.metrics}
	if f.journal != nil {
		r.AuditLog = f.journal
	}
	f.do(nodecache.IndexMachines(f.t.Context(), mgr.GetFieldIndexer()))
	f.do(r.Setup(f.t.Context(), mgr, mgr.GetCache(), 1))
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			f.t.Errorf("the manager: %v", err)
		}
	}()
	f.stop = func() { cancel(); <-ended; f.stop = func() {} }
}

// counting counts what writes, and what reads one Node.
type counting struct {
	next          http.RoundTripper
	writes, reads *atomic.Int64
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		c.writes.Add(1)
	} else if strings.HasPrefix(req.URL.Path, "/api/v1/nodes/") {
		c.reads.Add(1)
	}
	return c.next.RoundTrip(req)
}

// version makes the record of a version of profile osp-x for the pool, and once the
// OperatingSystemProfile with its author.
func (f *fleet) version(pool *machines.MachineDeployment, version string) render.Record {
	f.t.Helper()
	osp := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "osp-x-" + version},
		Spec: osm.OperatingSystemProfileSpec{
			OSName: "ubuntu", OSVersion: "24.04", Version: version,
			SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
		},
	}
	digest := profile.Digest(osp.Spec)
	osp.Annotations = map[string]string{
		api.AnnotationDigest: digest, api.AnnotationAuthor: "Ada \x1b[31m<ada@example.com>", api.AnnotationSignature: "commit by ada, ssh SHA256:x", api.AnnotationCommittedAt: "2026-02-27T16:20:00Z",
	}
	f.do(client.IgnoreAlreadyExists(f.client.Create(f.t.Context(), osp)))
	rec := render.Record{
		Object: osp.Name, ObjectDigest: digest, Profile: "osp-x", Version: version, Repository: "https://git.example.com/osps.git", Path: "osp-x.yaml",
		Commit: strings.Repeat(version[1:2], 40), Change: strings.Repeat("c", 40), SelectedBy: strings.Repeat("d", 40), Engine: render.EngineVersion,
	}
	rec.Pool.Name, rec.Pool.Namespace = pool.Name, pool.Namespace
	rec.Digests.Input = rec.InputDigest()
	return rec
}

// serve gives the pool a configuration, in place of the one that it has, which is
// archived as reconcile/pools does it.
func (f *fleet) serve(pool *machines.MachineDeployment, version string) render.Record {
	f.t.Helper()
	return f.serveRecord(pool, f.version(pool, version))
}

func (f *fleet) serveRecord(pool *machines.MachineDeployment, rec render.Record) render.Record {
	f.t.Helper()
	text, err := json.Marshal(rec)
	f.do(err)
	replaces := ""
	if have := f.config(pool); have != nil {
		replaces = string(have.UID)
		f.archive(pool, have, f.clock.Now())
		f.do(f.client.Delete(f.t.Context(), have))
	}
	f.create(&osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: pool.Name + "-" + pool.Namespace + "-config", Annotations: map[string]string{
			api.AnnotationPool: pool.Namespace + "/" + pool.Name, api.AnnotationRecord: string(text), api.AnnotationInputDigest: rec.Digests.Input,
			api.AnnotationReplaces: replaces, api.AnnotationRevisionFor: "1",
		}},
		Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
	})
	return rec
}

func (f *fleet) config(pool *machines.MachineDeployment) *osm.OperatingSystemConfig {
	f.t.Helper()
	var osc osm.OperatingSystemConfig
	err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.ns, Name: pool.Name + "-" + pool.Namespace + "-config"}, &osc)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return &osc
}

// archive archives the record of a configuration that ends at a time.
func (f *fleet) archive(pool *machines.MachineDeployment, osc *osm.OperatingSystemConfig, until time.Time) {
	f.t.Helper()
	rec, ok := lineage.IntactRecordOf(osc)
	if !ok {
		f.t.Fatal("the configuration has no record")
	}
	f.keepRecord(pool, rec, api.Interval{
		From: osc.CreationTimestamp, Until: metav1.NewTime(until), UID: osc.UID, Revision: "1", Replaces: "",
	})
}

func (f *fleet) keepRecord(pool *machines.MachineDeployment, rec render.Record, intervals ...api.Interval) {
	f.t.Helper()
	data, err := json.Marshal(rec)
	f.do(err)
	text, err := json.Marshal(intervals)
	f.do(err)
	obj := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.ns, Name: pool.Name + "-" + pool.Namespace + "-" + render.ShortDigest(rec.Digests.Input),
			Labels: map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(pool.Namespace, pool.Name)},
			Annotations: map[string]string{
				api.AnnotationPool: pool.Namespace + "/" + pool.Name, api.AnnotationInputDigest: rec.Digests.Input, api.AnnotationIntervals: string(text),
				api.AnnotationProfile: rec.Profile, api.AnnotationVersion: rec.Version, api.AnnotationCommit: rec.Commit,
			},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: 1,
	}
	var have appsv1.ControllerRevision
	if f.client.Get(f.t.Context(), client.ObjectKeyFromObject(obj), &have) == nil {
		have.Annotations = obj.Annotations
		f.do(f.client.Update(f.t.Context(), &have))
		return
	}
	f.create(obj)
}

// pool makes a MachineDeployment, with the profile or without.
func (f *fleet) pool(name, osp string) *machines.MachineDeployment {
	f.t.Helper()
	md := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name}}
	if osp != "" {
		md.Annotations = map[string]string{api.AnnotationOSP: osp}
	}
	f.create(md)
	return md
}

// machine makes a machine of a pool with a MachineSet of its own; without a pool it
// belongs to none.
func (f *fleet) machine(pool *machines.MachineDeployment) *machines.Machine {
	f.t.Helper()
	f.n++
	m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: fmt.Sprintf("%s-%d", f.ns, f.n)}}
	if pool != nil {
		m.OwnerReferences = []metav1.OwnerReference{f.set(pool, m.Name)}
	}
	f.create(m)
	return m
}

// set makes a MachineSet, and returns how a machine of it names it.
func (f *fleet) set(pool *machines.MachineDeployment, name string) metav1.OwnerReference {
	f.t.Helper()
	ms := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.ns, Name: name, Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineDeployment", Name: pool.Name, UID: pool.UID}},
	}}
	f.create(ms)
	return metav1.OwnerReference{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineSet", Name: ms.Name, UID: ms.UID}
}

// join makes the Node of a machine, with labels of its own.
func (f *fleet) join(m *machines.Machine, labels map[string]string) *corev1.Node {
	f.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{api.LabelOwnedBy: string(m.UID)}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + m.Name},
	}
	for k, v := range labels {
		node.Labels[k] = v
	}
	f.create(node)
	return node
}

// second lets time pass, so that what follows has a later time: those of the API server, whose clock
// no test sets, have whole seconds.
func second() { time.Sleep(1100 * time.Millisecond) }

// apart lets so much time pass that no time of what follows belongs together with one from before.
func apart() { time.Sleep(lineage.Leeway + 2*time.Second) }

// says are the labels of a node that was provisioned from a record.
func says(rec render.Record) map[string]string {
	return map[string]string{api.LabelConfig: render.ShortDigest(rec.Digests.Input), api.LabelCommit: render.LabelValue(rec.Commit)}
}

// provenance waits for what is written about a node, and for its status.
func (f *fleet) provenance(node *corev1.Node) *api.NodeProvenance {
	f.t.Helper()
	return f.until(lineage.ProvenanceName(node.Name, node.UID), func(np *api.NodeProvenance) bool { return np.Status.Behind != "" })
}

func (f *fleet) until(name string, done func(*api.NodeProvenance) bool) *api.NodeProvenance {
	f.t.Helper()
	var np api.NodeProvenance
	f.eventually("NodeProvenance "+name+" is as expected", func() error {
		if err := f.client.Get(f.t.Context(), client.ObjectKey{Name: name}, &np); err != nil {
			return err
		}
		if !done(&np) {
			return fmt.Errorf("it has %+v", np.Status)
		}
		return nil
	})
	return &np
}

func (f *fleet) eventually(what string, check func() error) {
	f.t.Helper()
	testenv.Await(f.t, 30*time.Second, what, check)
}

// all are the NodeProvenances there are.
func (f *fleet) all() map[string]bool {
	f.t.Helper()
	var list api.NodeProvenanceList
	f.do(f.client.List(f.t.Context(), &list))
	out := map[string]bool{}
	for _, np := range list.Items {
		out[np.Spec.Node.Name] = true
	}
	return out
}

func updated(was, is client.Object) event.UpdateEvent {
	return event.UpdateEvent{ObjectOld: was, ObjectNew: is}
}
