package pools

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/poolfixture"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// digesting reads Secrets from the API server in the form in which the manager's cache stores them.
type digesting struct{ client.Client }

func (d digesting) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := d.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	if key.Namespace == api.NamespaceCloudInitSettings {
		_, err := DigestSecretsAndTrim(obj)
		return err
	}
	return nil
}

// fixture runs a Reconciler step by step on the real API server, with a clock
// that the test moves.
type fixture struct {
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	r      *Reconciler
	pool   *machines.MachineDeployment
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := cluster.Shared(t)
	f := &fixture{t: t, client: c.Client(t), clock: clocktesting.NewFakeClock(time.Now())}
	ns := c.Namespace(t)
	here := kubeclient.Cluster{Client: digesting{f.client}, Live: f.client}
	f.r = &Reconciler{
		Management: here, Worker: here, ClusterInfo: f.client,
		Recorder: recorder(t, c), Routine: NewRoutineEventLimiter(), Engine: render.NewEngine(), Clock: f.clock, Random: rand.Reader,
		Namespace: ns, Settings: render.Settings{ClusterDNS: []string{"10.96.0.10"}, Namespace: ns}, CA: "ca",
	}
	poolfixture.Cluster(t, f.client)
	f.ensure(poolfixture.Profile(ns, "aws"))
	f.pool = poolfixture.Pool(ns, "pool", "aws")
	f.ensure(f.pool)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, s := range f.tokens(ctx) {
			_ = f.client.Delete(ctx, &s)
		}
	})
	return f
}

// recorder writes events to the API server.
func recorder(t *testing.T, c *cluster.Cluster) events.EventRecorder {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return broadcaster.NewRecorder(scheme, api.FieldManager)
}

func (f *fixture) ensure(obj client.Object) { f.t.Helper(); poolfixture.Ensure(f.t, f.client, obj) }

// reconcile runs until a run writes nothing late, and returns its result.
func (f *fixture) reconcile() ctrl.Result {
	f.t.Helper()
	res, err := f.r.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
	if err != nil {
		f.t.Fatal(err)
	}
	return res
}

func (f *fixture) tokens(ctx context.Context) []corev1.Secret {
	f.t.Helper()
	var list corev1.SecretList
	if err := f.client.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{api.LabelTokenPool: lineage.TokenLabel(keyOf(f.pool))}); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

func (f *fixture) secret(name string) *corev1.Secret {
	f.t.Helper()
	var s corev1.Secret
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: name}, &s); err != nil {
		f.t.Fatal(err)
	}
	return &s
}

func TestTokenIsRenewedInTime(t *testing.T) {
	f := newFixture(t)
	res := f.reconcile()
	if res.RequeueAfter < 29*time.Minute || res.RequeueAfter > 32*time.Minute {
		t.Errorf("the next run is in %s", res.RequeueAfter)
	}
	first := f.tokens(t.Context())
	if len(first) != 1 {
		t.Fatalf("there are %d tokens", len(first))
	}
	document := f.secret(namesOf(f.pool).Provisioning)
	if !bytes.Contains(document.Data[api.UserDataKey], first[0].Data["token-secret"]) {
		t.Fatal("the document does not carry the token")
	}

	f.clock.Step(20 * time.Minute)
	f.reconcile()
	if again := f.tokens(t.Context()); len(again) != 1 || again[0].ResourceVersion != first[0].ResourceVersion {
		t.Error("a token with 40 minutes left was touched")
	}

	f.clock.Step(15 * time.Minute)
	f.reconcile()
	renewed := f.tokens(t.Context())
	if len(renewed) != 1 || renewed[0].UID != first[0].UID {
		t.Fatalf("there are %d tokens, or another one", len(renewed))
	}
	if got, want := string(renewed[0].Data["expiration"]), string(token.Expiration(f.clock.Now().Add(token.Life))); got != want {
		t.Errorf("the end is %s, want %s", got, want)
	}
	if again := f.secret(document.Name); again.ResourceVersion != document.ResourceVersion {
		t.Error("moving the token's end rewrote the document")
	}

	// The controller did not run until the token had expired.
	f.clock.Step(3 * time.Hour)
	f.reconcile()
	var fresh *corev1.Secret
	for _, s := range f.tokens(t.Context()) {
		if s.UID != first[0].UID {
			fresh = &s
		}
	}
	if fresh == nil {
		t.Fatal("a dead token was not replaced")
	}
	after := f.secret(document.Name)
	if after.UID != document.UID || !bytes.Contains(after.Data[api.UserDataKey], fresh.Data["token-secret"]) {
		t.Error("the document does not carry the new token")
	}
	if !bytes.Contains(f.secret(namesOf(f.pool).Kubeconfig).Data[api.KubeconfigKey], fresh.Data["token-secret"]) {
		t.Error("the kubelet's kubeconfig does not carry the new token")
	}
}

// A cache that is behind does not have a rejection written a second time, which would move
// its time.
func TestStaleRefusal(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	f.ask(map[string]string{api.AnnotationOSP: "none"})
	var now osm.OperatingSystemConfig
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &now); err != nil {
		t.Fatal(err)
	}
	if now.Annotations[api.AnnotationRefused] == "" {
		t.Fatal("nothing is refused")
	}
	stale := now.DeepCopy()
	stale.Annotations, stale.ResourceVersion = map[string]string{}, "1"
	if err := f.r.newWriter().annotateOutcome(t.Context(), stale, plan{rejected: map[string]string{api.AnnotationRefused: "refused"}}, ""); !errors.Is(err, fault.ErrRaced) {
		t.Errorf("a rejection that stands already was written again (err %v)", err)
	}
	version := now.ResourceVersion
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(&now), &now); err != nil {
		t.Fatal(err)
	}
	if now.ResourceVersion != version {
		t.Errorf("resourceVersion went from %s to %s", version, now.ResourceVersion)
	}
}

func TestDuplicateTokensAreTolerated(t *testing.T) {
	f := newFixture(t)
	for range 2 {
		made, err := token.New(rand.Reader, f.pool, f.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		f.ensure(made.Secret)
	}
	f.reconcile()
	if got := len(f.tokens(t.Context())); got != 2 {
		t.Errorf("there are %d tokens", got)
	}
	f.secret(namesOf(f.pool).Bootstrap)
}

// Without cluster-info nodes get the endpoint of the service kubernetes.
func TestEndpointWithoutClusterInfo(t *testing.T) {
	f := newFixture(t)
	e, err := f.r.endpoints().Get(t.Context())
	if err != nil || e.Server != "https://[fd00::1]:6443" || string(e.CertificateAuthorityData) != "ca" {
		t.Errorf("got %+v, %v", e, err)
	}
	f.r.OverrideServer = "https://override:443"
	if e, err = f.r.endpoints().Get(t.Context()); err != nil || e.Server != "https://override:443" {
		t.Errorf("got %+v, %v", e, err)
	}
}

// A ServiceAccount's token takes the place of bootstrap tokens.
func TestServiceAccountToken(t *testing.T) {
	f := newFixture(t)
	ns := f.pool.Namespace
	f.r.TokenServiceAccount = client.ObjectKey{Namespace: ns, Name: "kubelets"}
	if _, err := f.r.newTokens().FindBootstrap(t.Context(), f.pool, false); err == nil || !strings.Contains(err.Error(), "create it") {
		t.Errorf("without the ServiceAccount: %v", err)
	}
	f.ensure(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kubelets"}, Secrets: []corev1.ObjectReference{{Name: "other"}, {Name: "kubelets-token"}}})
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other"}})
	f.ensure(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kubelets-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "kubelets"}},
		Type:       corev1.SecretTypeServiceAccountToken,
		Data:       map[string][]byte{"token": []byte("sa-token")},
	})
	got, err := f.r.newTokens().FindBootstrap(t.Context(), f.pool, false)
	if err != nil || got.Value == "" || got.Create || got.Renew {
		t.Errorf("got %+v, %v", got, err)
	}
	if got := len(f.tokens(t.Context())); got != 0 {
		t.Errorf("%d bootstrap tokens were made", got)
	}
}

// A pool of a manually changed profile object retains its last documents, although the old content
// does not exist any more.
func TestLastGoodOfAProfileThatIsGone(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	before := f.secret(namesOf(f.pool).Provisioning)
	var osp osm.OperatingSystemProfile
	key := client.ObjectKey{Namespace: f.r.Namespace, Name: "osp-hand"}
	if err := f.client.Get(t.Context(), key, &osp); err != nil {
		t.Fatal(err)
	}
	osp.Spec.Version = "v1.1.0"
	osp.Spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .NetworkConfig.CIDR }}"
	if err := f.client.Update(t.Context(), &osp); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(40 * time.Minute) // the token has to be renewed all the same
	if res := f.reconcile(); res.RequeueAfter == 0 {
		t.Error("nobody will renew the token")
	}
	if after := f.secret(before.Name); after.ResourceVersion != before.ResourceVersion {
		t.Error("the document was written")
	}
	if got := string(f.tokens(t.Context())[0].Data["expiration"]); got != string(token.Expiration(f.clock.Now().Add(token.Life))) {
		t.Errorf("the token ends at %s", got)
	}
}

// Despite any error of a pool, its token is renewed before it expires.
func TestTokenIsRenewedWhateverIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(f *fixture){
		"the endpoint is unknown": func(f *fixture) { f.r.ClusterInfo = unreadable{f.client} },
		"the profile is gone": func(f *fixture) {
			f.delete(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-hand"}})
		},
		"the profile and the configuration are gone": func(f *fixture) {
			f.delete(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-hand"}})
			f.delete(&osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.reconcile()
			spoil(f)
			f.clock.Step(40 * time.Minute)
			res, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
			if got, want := string(f.tokens(t.Context())[0].Data["expiration"]), string(token.Expiration(f.clock.Now().Add(token.Life))); got != want {
				t.Errorf("the token ends at %s, want %s", got, want)
			}
			if err == nil && (res.RequeueAfter <= 0 || res.RequeueAfter > token.Life-token.RenewBefore+2*time.Minute) {
				t.Errorf("the next run is in %s", res.RequeueAfter)
			}
		})
	}
}

// unreadable is an API server that gives out no ConfigMap.
type unreadable struct{ client.Client }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is away")
}

func (f *fixture) delete(obj client.Object) {
	f.t.Helper()
	if err := f.client.Delete(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
}

// A cache that still has a token which ended meanwhile makes no second new one.
func TestStaleEndedToken(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	stale := staleTokens{digesting: digesting{f.client}, tokens: f.tokens(t.Context())}
	f.clock.Step(3 * time.Hour)
	f.r.Worker.Client = stale
	for range 3 {
		f.reconcile()
	}
	if got := len(f.tokens(t.Context())); got != 2 { // the dead one is the token cleaner's
		t.Errorf("there are %d tokens", got)
	}
}

// staleTokens is a cache that does not follow.
type staleTokens struct {
	digesting
	tokens []corev1.Secret
}

func (s staleTokens) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if secrets, ok := list.(*corev1.SecretList); ok {
		secrets.Items = slices.Clone(s.tokens)
		return nil
	}
	return s.digesting.List(ctx, list, opts...)
}

// A pool that is deleted between our finalizer and our first object leaves nothing.
func TestOrphansAreRemoved(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	if err := f.client.Patch(t.Context(), f.pool, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	f.delete(f.pool)
	if err := f.r.newWriter().ensureFinalizer(t.Context(), f.pool.DeepCopy()); !errors.Is(err, fault.ErrRaced) {
		t.Errorf("a pool that is gone was held (err %v)", err)
	}
	f.reconcile()
	if left, err := f.r.reader().listOwned(t.Context(), f.r.reader().live(), f.pool); err != nil || len(left) != 0 {
		t.Errorf("%d objects are left (err %v): %v", len(left), err, left)
	}
}

// Objects other than the documents are restored after an edit or deletion.
func TestEditsAreUndone(t *testing.T) {
	f := newFixture(t)
	f.r.Settings.NodeHTTPProxy = "http://user:secret@proxy.example.com"
	f.reconcile()
	osc := &osm.OperatingSystemConfig{}
	oscKey := client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}
	get := func(key client.ObjectKey, obj client.Object) {
		t.Helper()
		if err := f.client.Get(t.Context(), key, obj); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(obj client.Object, body string) {
		t.Helper()
		if err := f.client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("an annotation of a Secret", func(t *testing.T) {
		secret := f.secret(namesOf(f.pool).Bootstrap)
		patch(secret.DeepCopy(), `{"metadata":{"annotations":{"gitops.k8c.io/profile":"evil","k8c.io/osp-version":"v9.9.9"}}}`)
		f.reconcile()
		again := f.secret(secret.Name)
		if again.Annotations[api.AnnotationProfile] != "osp-hand" || again.Annotations[api.AnnotationOSPVersion] != "v1.0.0" {
			t.Errorf("annotations are %v", again.Annotations)
		}
	})
	t.Run("the record", func(t *testing.T) {
		get(oscKey, osc)
		patch(osc.DeepCopy(), `{"metadata":{"annotations":{"gitops.k8c.io/record":null}}}`)
		f.reconcile()
		get(oscKey, osc)
		if recordOf(osc).Object != "osp-hand" {
			t.Error("there is no record")
		}
	})
	t.Run("a forged record is not served", func(t *testing.T) {
		get(oscKey, osc)
		forged := recordOf(osc)
		forged.Pool.SSHPublicKeys = []string{"ssh-ed25519 forged"}
		_, err := f.r.records().RestoreInput(t.Context(), f.pool, forged, render.Cluster{})
		if err == nil || !strings.Contains(err.Error(), "was edited") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the kept credentials and settings", func(t *testing.T) {
		f.delete(f.secret(namesOf(f.pool).Inputs))
		get(oscKey, osc)
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: lineage.SettingsName(recordOf(osc).SettingsDigest)}}
		f.delete(settings)
		f.clock.Step(2 * archive.SettingsTrust)
		f.reconcile()
		if _, err := f.r.records().RestoreInput(t.Context(), f.pool, recordOf(osc), render.Cluster{}); err != nil {
			t.Errorf("the generation cannot be restored: %v", err)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// userDataName is the Secret of a stage.
func userDataName(md *machines.MachineDeployment, stage string) string {
	return md.Name + "-" + md.Namespace + "-" + stage + "-config"
}
