package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// patience limits every wait: reaching it is a failure, so it can be long.
const patience = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// bench runs the controller on the real API server, with a clock that the test moves. The
// test is the pool controller and machine-controller.
type bench struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  client.WithWatch
	clock   *clocktesting.FakeClock
	ns      string
	told    *events.FakeRecorder
	stop    func()

	afterPools, afterPatch atomic.Pointer[func()] // set by duringRun
}

// workerClient is the client of the cluster with pools. Between two requests of a run the test can
// act.
type workerClient struct {
	client.Client

	bench *bench
}

// duringRun lets a test act once after the pools of a profile are listed, or one is patched.
func (b *bench) duringRun(when *atomic.Pointer[func()], act func()) { when.Store(&act) }

func (c workerClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	var o client.ListOptions
	if o.ApplyOptions(opts); o.FieldSelector != nil && strings.Contains(o.FieldSelector.String(), profileIndex) {
		act(&c.bench.afterPools)
	}
	return err
}

func (c workerClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	act(&c.bench.afterPatch)
	return err
}

func act(on *atomic.Pointer[func()]) {
	if f := on.Swap(nil); f != nil {
		(*f)()
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	c := cluster.Shared(t)
	b := &bench{t: t, cluster: c, client: c.Client(t), clock: clocktesting.NewFakeClock(time.Now()), ns: c.Namespace(t)}
	b.do(client.IgnoreAlreadyExists(b.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})))
	b.start()
	t.Cleanup(func() {
		b.stop()
		ctx := context.WithoutCancel(t.Context())
		b.do(b.client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(api.NamespaceCloudInitSettings)))
		b.do(b.client.DeleteAllOf(ctx, &api.BootReport{}, client.InNamespace(api.NamespaceCloudInitSettings)))
		for _, obj := range []client.Object{&machines.MachineDeployment{}, &machines.MachineSet{}, &machines.Machine{}} {
			b.do(b.client.DeleteAllOf(ctx, obj, client.InNamespace(b.ns)))
		}
	})
	return b
}

func (b *bench) do(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// start starts a controller that knows nothing yet.
func (b *bench) start() {
	b.t.Helper()
	mgr, err := ctrl.NewManager(b.cluster.Config, ctrl.Options{
		Scheme: b.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache:      cache.Options{ByObject: nodecache.WorkerObjects()},
	})
	b.do(err)
	b.told = events.NewFakeRecorder(10_000)
	r := &Reconciler{
		Management: mgr.GetClient(), Worker: workerClient{mgr.GetClient(), b},
		Recorder: b.told, SourceRecorder: b.told, Clock: b.clock, Ahead: func() time.Duration { return 0 }, Namespace: b.ns,
	}
	b.do(r.Setup(b.t.Context(), mgr, mgr.GetCache()))
	b.do(r.WatchBootReports(mgr.GetCache()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) restart() {
	b.t.Helper()
	b.stop()
	b.start()
}

func (b *bench) eventually(what string, check func() error) {
	b.t.Helper()
	b.do(testenv.Until(b.t.Context(), patience, what, check))
}

func (b *bench) source() *api.ProfileSource {
	b.t.Helper()
	var ps api.ProfileSource
	b.do(b.client.Get(b.t.Context(), types.NamespacedName{Namespace: b.ns, Name: "osps"}, &ps))
	return &ps
}

// spec writes the source's spec.rollout.
func (b *bench) spec(rollout string) {
	b.t.Helper()
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "osps"}, Spec: api.ProfileSourceSpec{
		Git:      &api.GitSource{URL: "https://example.com/osps", Timeout: metav1.Duration{Duration: time.Minute}},
		Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
	}}
	b.do(client.IgnoreAlreadyExists(b.client.Create(b.t.Context(), ps)))
	b.do(b.client.Patch(b.t.Context(), ps, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"rollout":`+rollout+`}}`))))
}

// push writes the inventory, as the source's controller does.
func (b *bench) push(version string) {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"profiles": []api.ProfileEntry{{Name: "osp-a", Version: version, Object: "osp-a-" + version, Path: "a.yaml", Digest: "v1:" + version}}}})
	b.do(err)
	b.do(b.client.Status().Patch(b.t.Context(), b.source(), client.RawPatch(types.MergePatchType, body)))
}

// poke starts a run, since no timer of the controller hears of the test's clock.
func (b *bench) poke() {
	b.t.Helper()
	b.do(b.client.Patch(b.t.Context(), b.source(), client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{"poke":"%d"}}}`, time.Now().UnixNano())))))
}

func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	b.clock.Step(d)
	b.poke()
}

func (b *bench) is(version string, wave int32, reason string) *api.RolloutStatus {
	b.t.Helper()
	var got *api.RolloutStatus
	b.eventually(fmt.Sprintf("%s at wave %d, %s", version, wave, reason), func() error {
		b.follow()
		if got = b.source().RolloutOf("osp-a"); got == nil || got.Version != version || got.Wave != wave || got.Reason != reason {
			return fmt.Errorf("the rollout is %+v", got)
		}
		return nil
	})
	return got
}

func (b *bench) object(kind, name string, metadata, rest map[string]any) {
	b.t.Helper()
	metadata["namespace"], metadata["name"] = b.ns, name
	rest["apiVersion"], rest["kind"], rest["metadata"] = machines.GroupVersion.String(), kind, metadata
	b.do(b.client.Create(b.t.Context(), &unstructured.Unstructured{Object: rest}))
}

func ownedBy(kind string, owner client.Object) []any {
	return []any{map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": kind, "name": owner.GetName(), "uid": string(owner.GetUID())}}
}

func (b *bench) pool(name string, wave int, annotations map[string]any) *machines.MachineDeployment {
	b.t.Helper()
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[api.AnnotationOSP] = "osp-a"
	b.object("MachineDeployment", name, map[string]any{"labels": map[string]any{api.LabelWave: fmt.Sprint(wave)}, "annotations": annotations},
		map[string]any{"spec": map[string]any{"replicas": int64(1), "template": map[string]any{"spec": map[string]any{"unknown": "kept"}}}})
	md := b.md(name)
	b.object("MachineSet", name+"-1", map[string]any{"ownerReferences": ownedBy("MachineDeployment", md)}, map[string]any{"spec": map[string]any{"replicas": int64(1)}})
	return md
}

func (b *bench) md(name string) *machines.MachineDeployment {
	b.t.Helper()
	var md machines.MachineDeployment
	b.do(b.client.Get(b.t.Context(), types.NamespacedName{Namespace: b.ns, Name: name}, &md))
	return &md
}

func (b *bench) machine(pool, name string) {
	b.t.Helper()
	b.machineOf(pool+"-1", name)
}

func (b *bench) machineOf(owner, name string) {
	b.t.Helper()
	var set machines.MachineSet
	b.do(b.client.Get(b.t.Context(), types.NamespacedName{Namespace: b.ns, Name: owner}, &set))
	b.object("Machine", name, map[string]any{"ownerReferences": ownedBy("MachineSet", &set)}, map[string]any{"spec": int64(5)}) // nobody checks it
}

func (b *bench) machineStatus(name, status string) {
	b.t.Helper()
	m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name}}
	b.do(b.client.Status().Patch(b.t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))))
}

// follow gives every pool what its wave is given.
func (b *bench) follow() {
	b.t.Helper()
	ps := b.source()
	var list machines.MachineDeploymentList
	b.do(b.client.List(b.t.Context(), &list, client.InNamespace(b.ns)))
	for i := range list.Items {
		md := &list.Items[i]
		wave, err := selection.WaveOf(md.Labels)
		b.do(err)
		given, ok := selection.EntryForWave(ps, ps.Status.Profiles[0], wave)
		if !ok {
			continue
		}
		annotations := map[string]string{
			api.AnnotationPool: b.ns + "/" + md.Name, api.AnnotationPoolUID: string(md.UID), api.AnnotationProfile: "osp-a", api.AnnotationVersion: given.Version,
			api.AnnotationRevisionFor: md.Annotations[api.AnnotationMDRevision], api.AnnotationInputDigest: "digest-" + given.Version, api.AnnotationRecord: fmt.Sprintf(`{"object":%q,"objectDigest":%q}`, given.Object, given.Digest),
		}
		osc := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: md.Name + "-config"}}
		err = b.client.Get(b.t.Context(), client.ObjectKeyFromObject(osc), osc)
		if err == nil && osc.Annotations[api.AnnotationVersion] == given.Version {
			continue
		}
		if err == nil {
			b.archive(osc)
			annotations[api.AnnotationReplaces] = string(osc.UID)
			b.do(b.client.Delete(b.t.Context(), osc))
		} else if !apierrors.IsNotFound(err) {
			b.do(err)
		}
		b.do(b.client.Create(b.t.Context(), &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: md.Name + "-config", Annotations: annotations},
			Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", ProvisioningUtility: "cloud-init", CloudProvider: osm.CloudProviderSpec{Name: "aws"}}}))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(types.NamespacedName{Namespace: md.Namespace, Name: md.Name}).Bootstrap, Annotations: annotations}}
		if err := b.client.Create(b.t.Context(), secret); apierrors.IsAlreadyExists(err) {
			err = b.client.Update(b.t.Context(), secret)
			b.do(err)
		} else {
			b.do(err)
		}
	}
}

// archive creates the record of a replaced configuration.
func (b *bench) archive(osc *osm.OperatingSystemConfig) {
	b.t.Helper()
	key := types.NamespacedName{Namespace: b.ns, Name: osc.Name + "-" + strings.ToLower(osc.Annotations[api.AnnotationInputDigest])}
	var have appsv1.ControllerRevision
	if err := b.client.Get(b.t.Context(), key, &have); !apierrors.IsNotFound(err) {
		b.do(err)
	}
	var intervals []api.Interval
	if text := have.Annotations[api.AnnotationIntervals]; text != "" {
		b.do(json.Unmarshal([]byte(text), &intervals))
	}
	text, err := json.Marshal(append(intervals, api.Interval{From: osc.CreationTimestamp, Until: metav1.Now(), UID: osc.UID, Revision: osc.Annotations[api.AnnotationRevisionFor]}))
	b.do(err)
	annotations := map[string]string{
		api.AnnotationPool: osc.Annotations[api.AnnotationPool], api.AnnotationInputDigest: osc.Annotations[api.AnnotationInputDigest], api.AnnotationIntervals: string(text),
	}
	if have.Name != "" {
		have.Annotations = annotations
		b.do(b.client.Update(b.t.Context(), &have))
		return
	}
	b.do(b.client.Create(b.t.Context(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: annotations, Labels: map[string]string{api.LabelManagedBy: api.FieldManager}},
		Data:       runtime.RawExtension{Raw: []byte(`{}`)},
	}))
}

// templateAnnotation returns the annotation of a pool's template.
func (b *bench) templateAnnotation(name string) string {
	b.t.Helper()
	return b.md(name).Spec.Template.Metadata.Annotations[api.AnnotationConfig]
}

// done says what machine-controller says of a pool with one machine that is in order.
func (b *bench) done(name string) {
	b.t.Helper()
	md := b.md(name)
	b.do(b.client.Status().Patch(b.t.Context(), md, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`, md.Generation)))))
}

// second lets the whole seconds that times of the API have pass.
func (b *bench) second() { time.Sleep(1100 * time.Millisecond) }

// The clock decides about windows and machines that do not join; after a restart the
// status says where to continue.
func TestRolloutByTheClock(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None"}`)
	b.push("v1.0.0")
	for name, wave := range map[string]int{"canary": 0, "most": 5, "last": 9} {
		b.pool(name, wave, nil)
	}
	b.follow()
	// The gate and a version come together: what all have is noted first.
	b.spec(`{"gate":"Waves","window":"1h"}`)
	b.push("v2.0.0")
	r := b.is("v2.0.0", 0, "Window")
	if r.From == nil || r.From.Version != "v1.0.0" || r.From.Object != "osp-a-v1.0.0" || r.From.Digest != "v1:v1.0.0" {
		t.Errorf("it comes from %+v", r.From)
	}
	b.machine("canary", "slow")
	b.is("v2.0.0", 0, "MachinesBooting")
	b.machineStatus("slow", `"nothing that can be read"`)
	b.pass(31 * time.Minute)
	if r := b.is("v2.0.0", 0, "MachinesNotJoined"); !r.Held || r.Failures[0].Machine != "slow" {
		t.Errorf("the status is %+v", r)
	}
	b.restart()
	b.pass(10 * time.Hour)
	b.is("v2.0.0", 0, "MachinesNotJoined")
	b.machineStatus("slow", `{"nodeRef":{"kind":"Node","name":"slow"},"conditions":[{"type":"Ready","status":"False"}]}`)
	b.poke()
	b.is("v2.0.0", 0, "MachinesNotJoined") // a Node that is not Ready has not joined
	b.machineStatus("slow", `{"conditions":[{"type":"Ready","status":"True"}]}`)
	b.is("v2.0.0", 5, "Window")
	b.restart()
	b.pass(59 * time.Minute)
	b.is("v2.0.0", 5, "Window")
	b.pass(2 * time.Minute)
	b.is("v2.0.0", 9, "Window")
	b.pass(61 * time.Minute)
	b.is("v2.0.0", 9, "Done")

	b.restart()
	b.pool("another", 0, nil)
	time.Sleep(2 * settle) // a write would have come by now
	if r := b.source().RolloutOf("osp-a"); r.Pools.Total != 3 {
		t.Errorf("what is done is counted on: %+v", r)
	}
	b.spec(`{"gate":"None"}`)
	b.eventually("end of the rollouts", func() error {
		if n := len(b.source().Status.Rollouts); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

func TestMachinesAreReplacedInTurn(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"Waves","window":"1h","maxConcurrent":1}`)
	b.push("v1.0.0")
	b.is("v1.0.0", 9, "Done")
	replace := map[string]any{api.AnnotationRollout: api.RolloutReplace}
	for _, name := range []string{"a", "b"} {
		b.pool(name, 0, replace)
		b.machine(name, name+"-old")
	}
	b.pool("c", 5, replace)
	b.second() // machines may wait for their first document
	b.pool("alone", 0, nil)
	b.machine("alone", "alone-old")
	b.follow()
	b.second()
	before := b.md("alone")
	b.push("v2.0.0")
	r := b.is("v2.0.0", 0, "Replacing")
	if !strings.Contains(r.Message, b.ns+"/a, "+b.ns+"/b") {
		t.Errorf("it says %q", r.Message)
	}
	replaced := func(name string) {
		t.Helper()
		b.eventually("template annotation of "+name, func() error {
			if got := b.templateAnnotation(name); got != "digest-v2.0.0" {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		b.machine(name, name+"-new")
		b.machineStatus(name+"-new", `{"nodeRef":{"kind":"Node","name":"x"}}`)
		b.do(b.client.Delete(t.Context(), &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name + "-old"}}))
	}
	replaced("a")
	b.restart()
	b.still("while a is replacing machines", "b", "")
	b.eventually("counts", func() error {
		if got := b.source().Status.Replacements; got == nil || *got != (api.Replacements{Replacing: 1, Waiting: 1}) {
			return fmt.Errorf("they are %+v", got)
		}
		return nil
	})
	b.done("a")
	replaced("b")
	b.is("v2.0.0", 0, "Replacing")
	b.done("b")
	b.is("v2.0.0", 5, "Window")
	if got := b.templateAnnotation("c"); got != "" { // it has no machine that boots from another
		t.Errorf("c is annotated %q", got)
	}
	if after := b.md("alone"); after.ResourceVersion != before.ResourceVersion {
		t.Error("a pool that asked for nothing was written")
	}
	raw := &unstructured.Unstructured{Object: map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment"}}
	b.do(b.client.Get(t.Context(), types.NamespacedName{Namespace: b.ns, Name: "a"}, raw))
	if kept, _, err := unstructured.NestedString(raw.Object, "spec", "template", "spec", "unknown"); kept != "kept" || err != nil {
		t.Errorf("a field that nobody knows is %q (err %v)", kept, err)
	}
	if raw.GetGeneration() != 2 {
		t.Errorf("the template was written %d times", raw.GetGeneration()-1)
	}
}

// A boot that fails holds the wave after 5 minutes or at the third attempt, until it succeeds.
func TestFailingBootHoldsTheWave(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"Waves","window":"1h"}`)
	b.push("v1.0.0")
	b.is("v1.0.0", 9, "Done")
	b.pool("canary", 0, nil)
	b.pool("most", 5, nil)
	b.follow()
	b.second()
	b.push("v2.0.0")
	b.is("v2.0.0", 0, "Window")
	b.second()
	b.machine("canary", "m")
	b.is("v2.0.0", 0, "MachinesBooting")
	var m machines.Machine
	b.do(b.client.Get(t.Context(), types.NamespacedName{Namespace: b.ns, Name: "m"}, &m))
	report := &api.BootReport{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.NamespaceCloudInitSettings, Name: "node-canary-0123456789abcdef", Annotations: map[string]string{api.AnnotationPool: b.ns + "/canary"},
	}}
	b.do(b.client.Create(t.Context(), report))
	write := func(outcome api.BootOutcome, attempt int32) {
		t.Helper()
		report.Status.Machines = []api.MachineBootStatus{{
			Machine: "m", MachineUID: m.UID, Stage: api.BootStageSetup, Outcome: outcome, BootID: "01234567-89ab-cdef-0123-456789abcdef", Attempt: attempt, Config: "0123456789ab",
			Profile: "osp-a", Version: "v2.0.0", Since: metav1.NewTime(b.clock.Now().Truncate(time.Second)),
			Cause: &api.BootCause{File: "a.yaml", Line: 42, Command: "curl -f https://example.com", ExitStatus: 22},
		}}
		b.do(b.client.Status().Update(t.Context(), report))
	}
	write(api.BootFailing, 1)
	b.pass(4 * time.Minute)
	b.is("v2.0.0", 0, "MachinesBooting")
	b.restart()
	b.pass(time.Minute + time.Second)
	r := b.is("v2.0.0", 0, "MachinesNotJoined")
	if f := r.Failures[0]; !r.Held || f.Machine != "m" || f.Reason != api.FailureBootFailing || f.Cause != "a.yaml:42, exit status 22" {
		t.Errorf("the status is %+v", r)
	}
	write(api.BootSucceeded, 2)
	b.is("v2.0.0", 0, "MachinesBooting")
	write(api.BootFailing, 3)
	b.is("v2.0.0", 0, "MachinesNotJoined") // the change of the report alone starts a run
	b.do(b.client.Patch(t.Context(), b.source(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+api.AnnotationRelease+`":"v2.0.0"}}}`))))
	b.is("v2.0.0", 9, "Done")
}

// Without a gate there is nothing to wait for: looking again would be a loop that never
// rests.
func TestNothingToWaitForWithoutAGate(t *testing.T) {
	for name, source := range map[string]*api.ProfileSource{
		"no source":           nil,
		"no rollout":          {},
		"a rollout, no gate":  {Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{}}},
		"a gate, no profiles": {Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}},
	} {
		planned := newPlan(&observed{source: source})
		if planned.next != 0 || planned.source != nil && len(planned.source.Status.Rollouts) > 0 {
			t.Errorf("%s: the plan is %+v", name, planned)
		}
	}
}

// A source without waves has nothing to record, so its status is left to the controller that
// reconciles it, which a write in between would make begin again.
func TestNoWriteWithoutWaves(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "osps"}, Spec: api.ProfileSourceSpec{
		Git:      &api.GitSource{URL: "https://example.com/osps", Timeout: metav1.Duration{Duration: time.Minute}},
		Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
	}}
	if err := cl.Create(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
	r, seen := &Reconciler{Management: cl}, &observed{source: ps}
	if _, err := r.apply(t.Context(), seen, newPlan(seen)); err != nil {
		t.Fatal(err)
	}
	var after api.ProfileSource
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(ps), &after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != ps.ResourceVersion {
		t.Errorf("the status was written: %+v", after.Status)
	}
}
