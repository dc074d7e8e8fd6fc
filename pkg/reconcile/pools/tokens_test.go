package pools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const testTokenTTL = 24 * time.Hour

// newBoundFixture has a pool whose two documents carry a token of its own.
func newBoundFixture(t *testing.T, provider string) *fixture {
	t.Helper()
	f := newFixture(t)
	f.r.NodeTokenTTL = testTokenTTL
	header := osm.OSPConfig{Files: []osm.File{{Path: "/header", Permissions: 600,
		Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "Authorization: Bearer {{ .Token }}"}}}}}
	f.ensure(&osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-token"},
		Spec: osm.OperatingSystemProfileSpec{
			OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0",
			SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "hetzner"}, {Name: "edge"}},
			BootstrapConfig:         header, ProvisioningConfig: header,
		},
	})
	f.pool = &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "bound", Annotations: map[string]string{api.AnnotationOSP: "osp-token", api.AnnotationMDRevision: "1"}},
		Spec: machines.MachineDeploymentSpec{Template: machines.MachineTemplateSpec{Spec: machines.MachineSpec{
			Versions:     machines.MachineVersion{Kubelet: "1.35.0"},
			ProviderSpec: machines.ProviderSpec{Value: providerSpec(provider, "{}")},
		}}},
	}
	f.ensure(f.pool)
	return f
}

// restart forgets what the controller's process knew.
func (f *fixture) restart() {
	was := f.r
	f.r = &Reconciler{
		Management: was.Management, Worker: was.Worker, ClusterInfo: was.ClusterInfo, Recorder: was.Recorder, Engine: was.Engine,
		Clock: was.Clock, Random: was.Random, Namespace: was.Namespace, Settings: was.Settings, CA: was.CA, NodeTokenTTL: was.NodeTokenTTL, OverrideServer: was.OverrideServer,
	}
}

var bearer = regexp.MustCompile(`Bearer ([\w.-]+)`)

// carried is the token in a document.
func (f *fixture) carried(stage string) string {
	f.t.Helper()
	found := bearer.FindSubmatch(f.secret(userDataName(f.pool, stage)).Data[api.UserDataKey])
	if found == nil {
		f.t.Fatalf("the %s document carries no token", stage)
	}
	return string(found[1])
}

// counting notes the requests that cost the API server something: writes, and reads
// that no cache answers.
type counting struct {
	client.Client
	mu       *sync.Mutex
	requests *[]string
}

func (c counting) note(verb string, obj any, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.requests = append(*c.requests, fmt.Sprintf("%s %T %s", verb, obj, name))
}

func (c counting) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	c.note("create", obj, obj.GetName())
	return c.Client.Create(ctx, obj, opts...)
}

func (c counting) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	c.note("update", obj, obj.GetName())
	return c.Client.Update(ctx, obj, opts...)
}

func (c counting) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	c.note("patch", obj, obj.GetName())
	return c.Client.Patch(ctx, obj, patch, opts...)
}

func (c counting) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	c.note("delete", obj, obj.GetName())
	return c.Client.Delete(ctx, obj, opts...)
}

func (c counting) SubResource(name string) client.SubResourceClient {
	return countingSub{c.Client.SubResource(name), c, name}
}

func (c counting) Status() client.SubResourceWriter { return c.SubResource("status") }

type countingSub struct {
	client.SubResourceClient
	counting counting
	name     string
}

func (c countingSub) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	c.counting.note("create", sub, c.name)
	return c.SubResourceClient.Create(ctx, obj, sub, opts...)
}

func (c countingSub) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	c.counting.note("patch", obj, c.name)
	return c.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

// liveReads notes what is read from the API server itself.
type liveReads struct {
	client.Reader
	counting counting
}

func (l liveReads) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	l.counting.note("get", obj, key.Name)
	return l.Reader.Get(ctx, key, obj, opts...)
}

func (l liveReads) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.counting.note("list", list, "")
	return l.Reader.List(ctx, list, opts...)
}

// count notes the requests of this fixture's controller. The slice is of those since
// the function it returns was called last.
func (f *fixture) count() func() []string {
	var requests []string
	c := counting{Client: digesting{f.client}, mu: &sync.Mutex{}, requests: &requests}
	here := kubeclient.Cluster{Client: c, Live: liveReads{f.client, c}}
	f.r.Management, f.r.Worker = here, here
	return func() []string {
		c.mu.Lock()
		defer c.mu.Unlock()
		// After a restart only the settings can be read again.
		out := slices.DeleteFunc(requests, func(r string) bool {
			return strings.HasPrefix(r, "get *v1.ConfigMap") || strings.HasPrefix(r, "list *v1.EndpointSliceList")
		})
		requests = nil
		return out
	}
}

// A new pool has no bootstrap token yet, so the API server is not asked for one, although the
// webhook has added the finalizer. Later it is: the cache may not have the token.
func TestNewPoolIsNotAskedForATokenAtTheAPIServer(t *testing.T) {
	f := newFixture(t)
	controllerutil.AddFinalizer(f.pool, api.FinalizerPool)
	if err := f.client.Update(t.Context(), f.pool); err != nil {
		t.Fatal(err)
	}
	requests := f.count()
	const list = "list *v1.SecretList "
	f.reconcile()
	if sent := requests(); slices.Contains(sent, list) {
		t.Errorf("a new pool sent %q", sent)
	}
	for _, restarted := range []bool{false, true} {
		for _, s := range f.tokens(t.Context()) {
			f.delete(&s)
		}
		if restarted {
			f.restart()
		}
		f.reconcile()
		if sent := requests(); !slices.Contains(sent, list) {
			t.Errorf("without its token the pool sent %q", sent)
		}
	}
}

// A token is renewed at half of its life with three requests, provisioning before
// bootstrap, and nothing but the digests of data and tokens moves. The one before
// stays good. A controller that starts again writes nothing.
func TestBoundTokenIsRenewed(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	requests := f.count()
	f.reconcile()
	first := f.carried(stageBootstrap)
	before := map[string]*corev1.Secret{}
	for _, stage := range []string{stageProvision, stageBootstrap} {
		before[stage] = f.secret(userDataName(f.pool, stage))
	}
	osc := f.config()

	f.pass(11 * time.Hour)
	f.restart()
	requests()
	f.reconcile()
	if now := f.carried(stageBootstrap); now != first {
		t.Error("the token was renewed before half of its life")
	}
	for _, r := range requests() {
		if !strings.HasPrefix(r, "get ") { // the key of digests, settings
			t.Errorf("the restart sent: %s", r)
		}
	}

	// The bootstrap token's renewal does not count: it is moved just before.
	f.pass(100 * time.Minute) // half of its life, and all of the jitter
	for _, stage := range []string{stageProvision, stageBootstrap} {
		was, now := before[stage], f.secret(userDataName(f.pool, stage))
		if was.UID != now.UID || f.carried(stage) == first {
			t.Errorf("the %s document was not renewed in place", stage)
		}
		for key, value := range now.Annotations {
			same := value == was.Annotations[key]
			moves := slices.Contains([]string{api.AnnotationDataDigest, api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt, api.AnnotationCredentialsRenewAt}, key)
			if same == moves {
				t.Errorf("%s: annotation %s went from %q to %q", stage, key, was.Annotations[key], value)
			}
		}
	}
	var sent []string
	for _, r := range requests() {
		if !strings.Contains(r, "bootstrap-token-") && !strings.HasPrefix(r, "get ") {
			sent = append(sent, r)
		}
	}
	want := []string{"create *v1.TokenRequest token", "update *v1.Secret " + namesOf(f.pool).Provisioning, "update *v1.Secret " + namesOf(f.pool).Bootstrap}
	if !slices.Equal(sent, want) {
		t.Errorf("the renewal sent\n%q, want\n%q", sent, want)
	}
	if f.config().ResourceVersion != osc.ResourceVersion {
		t.Error("the renewal touched the configuration")
	}
	answers(t, first, "/"+namesOf(f.pool).Provisioning, http.StatusOK)
	answers(t, f.carried(stageBootstrap), "/"+namesOf(f.pool).Provisioning, http.StatusOK)
}

// pass lets time go by as the controller would see it: it runs when it asked to.
func (f *fixture) pass(d time.Duration) {
	f.t.Helper()
	for end := f.clock.Now().Add(d); ; {
		res := f.reconcile()
		if res.RequeueAfter <= 0 {
			f.t.Fatal("nobody will renew the tokens")
		}
		if f.clock.Now().Add(res.RequeueAfter).After(end) {
			f.clock.SetTime(end)
			return
		}
		f.clock.Step(res.RequeueAfter)
	}
}

// A document that is written for another reason carries the present token. After a restart, which
// loses it, the document gets a new one, once.
func TestBoundTokenOfARenderingInBetween(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	requests := f.count()
	f.reconcile()
	first := f.carried(stageBootstrap)
	requests()
	asked := func() (n int) {
		for _, r := range requests() {
			n += strings.Count(r, "TokenRequest")
		}
		return n
	}
	f.r.OverrideServer = "https://elsewhere.example.com"
	if f.reconcile(); f.carried(stageBootstrap) != first || asked() != 0 {
		t.Error("another server got another token")
	}
	f.restart()
	f.r.OverrideServer = "https://back.example.com"
	if f.reconcile(); f.carried(stageBootstrap) == first || f.carried(stageBootstrap) != f.carried(stageProvision) || asked() != 1 {
		t.Error("a restarted controller does not ask for one token")
	}
	// One document alone.
	second := f.carried(stageProvision)
	f.restart()
	f.patch(f.secret(namesOf(f.pool).Bootstrap), `{"stringData":{"cloud-config":"edited"}}`)
	if f.reconcile(); f.carried(stageProvision) != second || f.carried(stageBootstrap) == second || asked() != 1 {
		t.Error("the document that was edited is not the one with a new token")
	}
	// Editing the recorded time does not extend the use of a token.
	secret := f.secret(namesOf(f.pool).Provisioning)
	f.patch(secret, `{"metadata":{"annotations":{"`+api.AnnotationCredentialsRenewAt+`":"2099-01-01T00:00:00Z"}}}`)
	if f.reconcile(); f.secret(secret.Name).Annotations[api.AnnotationCredentialsRenewAt] > lineage.FormatTime(f.clock.Now().Add(testTokenTTL)) {
		t.Error("an edited annotation keeps a token for ever")
	}
	requests()
	if f.reconcile(); len(requests()) != 0 {
		t.Error("it does not come to rest")
	}
}

// A pool that cannot have what it requests retains its last good documents for days, with valid
// tokens, in at most three requests per half of a token's lifetime.
func TestBoundTokenOfTheLastGoodGeneration(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	requests := f.count()
	f.reconcile()
	f.patch(f.pool.DeepCopy(), `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-nowhere"}}}`)
	requests()
	const days = 3
	document := bearer.ReplaceAll(f.secret(namesOf(f.pool).Bootstrap).Data[api.UserDataKey], nil)
	for i := range 2 * days {
		f.pass(12 * time.Hour)
		if i%2 == 0 {
			f.restart()
		}
		f.reconcile()
		for _, stage := range []string{stageProvision, stageBootstrap} {
			secret := f.secret(userDataName(f.pool, stage))
			if left := lineage.AnnotatedTime(secret.Annotations, api.AnnotationCredentialsExpireAt).Sub(f.clock.Now()); left < 11*time.Hour {
				t.Fatalf("the token in the %s document has %s left", stage, left)
			}
			if got := secret.Annotations[api.AnnotationRevisionFor]; got != "1" {
				t.Errorf("the revision is %q", got)
			}
		}
		if got := bearer.ReplaceAll(f.secret(namesOf(f.pool).Bootstrap).Data[api.UserDataKey], nil); !bytes.Equal(got, document) {
			t.Fatal("the document has other content")
		}
		if tokens := f.tokens(t.Context()); len(tokens) != 1 || !strings.Contains(string(tokens[0].Data["expiration"]), "T") {
			t.Fatalf("there are %d bootstrap tokens", len(tokens))
		} else if end, err := time.Parse(time.RFC3339, string(tokens[0].Data["expiration"])); err != nil || end.Sub(f.clock.Now()) < 25*time.Minute {
			t.Fatalf("the bootstrap token ends in %s (err %v)", end.Sub(f.clock.Now()), err)
		}
	}
	asked, written, moved := 0, 0, 0
	for _, r := range requests() {
		asked += strings.Count(r, "TokenRequest")
		written += strings.Count(r, "update *v1.Secret "+f.pool.Name)
		moved += strings.Count(r, "update *v1.Secret bootstrap-token-")
	}
	if asked < 2*days-1 || asked > 2*days+1 || written != 2*asked {
		t.Errorf("in %d days %d tokens were asked for, %d documents written", days, asked, written)
	}
	if moved > 2*24*days {
		t.Errorf("in %d days the end of the bootstrap token was moved %d times", days, moved)
	}
}

// Going from the getter's token to bound ones and back writes each document once,
// changes no configuration, and takes no token from a machine that is booting.
func TestNodeTokensAreSwitched(t *testing.T) {
	f := newBoundFixture(t, "edge")
	requests := f.count()
	f.r.NodeTokenTTL = 0
	f.reconcile()
	if got := f.carried(stageBootstrap); got != "getter" {
		t.Fatalf("the document carries %q", got)
	}
	osc := f.config()
	documents := []string{"update *v1.Secret " + namesOf(f.pool).Provisioning, "update *v1.Secret " + namesOf(f.pool).Bootstrap}
	switched := func(ttl time.Duration, want ...string) {
		t.Helper()
		f.restart()
		f.r.NodeTokenTTL = ttl
		requests()
		for range 3 {
			f.reconcile()
		}
		var sent []string
		for _, r := range requests() {
			if strings.HasPrefix(r, "update *v1.Secret "+f.pool.Name) {
				sent = append(sent, r)
			}
		}
		if !slices.Equal(sent, documents) {
			t.Errorf("the documents were written so: %q", sent)
		}
		if after := f.config(); after.ResourceVersion != osc.ResourceVersion {
			t.Error("the configuration was touched")
		}
		if got := f.hasAccess(); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	switched(testTokenTTL, "binding", "role", "account")
	token := f.carried(stageBootstrap)
	answers(t, token, "/"+namesOf(f.pool).Kubeconfig, http.StatusOK)
	if f.secret(namesOf(f.pool).EdgeScript); !strings.Contains(f.script(), token) {
		t.Error("the script carries another token")
	}
	switched(0, "binding", "role", "account")
	if strings.Contains(f.script(), token) || f.carried(stageBootstrap) != "getter" {
		t.Error("the documents carry the bound token")
	}
	answers(t, token, "/"+namesOf(f.pool).Kubeconfig, http.StatusOK) // of a machine that is booting
	f.pass(23 * time.Hour)
	if len(f.hasAccess()) != 3 {
		t.Error("the account went before its last token ended")
	}
	f.pass(2 * time.Hour)
	f.reconcile()
	if got := f.hasAccess(); len(got) != 0 {
		t.Errorf("after the last token ended there are %q", got)
	}
	answers(t, token, "/"+namesOf(f.pool).Kubeconfig, http.StatusUnauthorized)
}

// hasAccess lists which objects let the pool's token read.
func (f *fixture) hasAccess() []string {
	f.t.Helper()
	var out []string
	for _, o := range []struct {
		name string
		obj  client.Object
	}{{"binding", &rbacv1.RoleBinding{}}, {"role", &rbacv1.Role{}}, {"account", &corev1.ServiceAccount{}}} {
		err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(keyOf(f.pool))}, o.obj)
		if client.IgnoreNotFound(err) != nil {
			f.t.Fatal(err)
		}
		if !apierrors.IsNotFound(err) {
			out = append(out, o.name)
		}
	}
	return out
}

// A new pool costs four requests more with a token of its own than without.
func TestRequestsOfANewPool(t *testing.T) {
	for ttl, want := range map[time.Duration]int{0: 6, testTokenTTL: 10} {
		f := newBoundFixture(t, "hetzner")
		f.r.NodeTokenTTL = ttl
		first := f.pool
		f.reconcile() // makes what all pools share
		f.pool = first.DeepCopy()
		f.pool.ObjectMeta = metav1.ObjectMeta{Namespace: first.Namespace, Name: "next", Annotations: first.Annotations}
		f.ensure(f.pool)
		requests := f.count()
		f.reconcile()
		writes := slices.DeleteFunc(requests(), func(r string) bool { return strings.HasPrefix(r, "get ") })
		if len(writes) != want {
			t.Errorf("with a token that lives %s: %d writes, want %d: %q", ttl, len(writes), want, writes)
		}
		f.reconcile()
		if again := requests(); len(again) != 0 {
			t.Errorf("a second look sent %q", again)
		}
	}
}

// Neither observing nor planning writes, although the plan of a new pool needs a token.
func TestPlanWritesNothing(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	requests := f.count()
	seen, err := f.r.observe(t.Context(), f.pool)
	if err != nil {
		t.Fatal(err)
	}
	if todo := f.r.makePlan(t.Context(), seen, nil); todo.err != nil || todo.lacks != lacksNodeToken {
		t.Errorf("the plan lacks %v, error %v", todo.lacks, todo.err)
	}
	writes := slices.DeleteFunc(requests(), func(r string) bool { return strings.HasPrefix(r, "get ") || strings.HasPrefix(r, "list ") })
	if len(writes) > 0 {
		t.Errorf("it sent %q", writes)
	}
	if got := f.hasAccess(); len(got) > 0 {
		t.Errorf("there are %q", got)
	}
}

// gated runs two steps around the creation of Roles and the requests of tokens.
type gated struct {
	client.Client
	createRole, requestToken func(context.Context, func() error) error
}

func (g gated) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	create := func() error { return g.Client.Create(ctx, obj, opts...) }
	if _, ok := obj.(*rbacv1.Role); ok {
		return g.createRole(ctx, create)
	}
	return create()
}

func (g gated) SubResource(name string) client.SubResourceClient {
	return gatedToken{g.Client.SubResource(name), g}
}

type gatedToken struct {
	client.SubResourceClient
	gated gated
}

func (g gatedToken) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return g.gated.requestToken(ctx, func() error { return g.SubResourceClient.Create(ctx, obj, sub, opts...) })
}

// waitFor waits until a step was done.
func waitFor(ctx context.Context, step <-chan struct{}) error {
	select {
	case <-step:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The Role of a new pool is created while its token is requested: here the token waits for the Role.
func TestRoleDoesNotWaitForToken(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	created := make(chan struct{})
	f.r.Worker.Client = gated{
		Client:     f.r.Worker.Client,
		createRole: func(_ context.Context, create func() error) error { defer close(created); return create() },
		requestToken: func(ctx context.Context, request func() error) error {
			if err := waitFor(ctx, created); err != nil {
				return err
			}
			return request()
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := f.r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); err != nil {
		t.Fatal(err)
	}
	answers(t, f.carried(stageBootstrap), "/"+namesOf(f.pool).Provisioning, http.StatusOK)
}

// A run that gets no token ends after its Role exists: a write that came later would remain if the
// pool was deleted meanwhile.
func TestRunWithoutTokenWaitsForRole(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	whole, refused := f.r.Worker.Client, make(chan struct{})
	f.r.Worker.Client = gated{
		Client: whole,
		createRole: func(ctx context.Context, create func() error) error {
			if err := waitFor(ctx, refused); err != nil {
				return err
			}
			for range 100 { // what the run still does is over by then
				if err := f.client.Get(ctx, client.ObjectKeyFromObject(f.pool), &machines.MachineDeployment{}); err != nil {
					return err
				}
			}
			return create()
		},
		requestToken: func(context.Context, func() error) error { defer close(refused); return errors.New("no token") },
	}
	if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); err == nil {
		t.Fatal("a run without a token succeeds")
	}
	if got := f.hasAccess(); len(got) != 3 {
		t.Errorf("when the run ended there were %q", got)
	}
	f.r.Worker.Client = whole
	f.delete(f.pool)
	f.reconcile()
	if got := f.hasAccess(); len(got) != 0 {
		t.Errorf("the pool left %q", got)
	}
}

// A run that was interrupted before the pool had its account and finalizer can leave a Role, which
// goes with the pool.
func TestRoleWithoutAccountIsReleased(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.ensure(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(keyOf(f.pool)),
		Annotations: map[string]string{api.AnnotationPool: poolKey(f.pool), api.AnnotationPoolUID: string(f.pool.UID)},
	}})
	f.delete(f.pool)
	f.reconcile()
	if got := f.hasAccess(); len(got) != 0 {
		t.Errorf("the pool left %q", got)
	}
}

// A token that was issued while the clock was ahead ends earlier than its documents say:
// when the clock is right again there is another. A token of the right time stays.
func TestTokenOfAClockThatWasAhead(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, since time.Duration
		stays        bool
	}{
		"a day ahead":                   {24 * time.Hour, time.Minute, false},
		"two hours ahead":               {2 * time.Hour, time.Minute, false},
		"an hour ahead, hours ago":      {time.Hour, 6 * time.Hour, true}, // it is renewed in time
		"right":                         {0, time.Minute, true},
		"a little ahead, as clocks are": {10 * time.Second, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newBoundFixture(t, "hetzner")
			now := f.clock.Now()
			f.clock.SetTime(now.Add(c.ahead))
			f.reconcile()
			token := f.carried(stageBootstrap)
			for _, restarted := range []bool{false, true} {
				if restarted {
					f.restart()
				}
				f.clock.SetTime(now.Add(c.since))
				f.reconcile()
				if stays := f.carried(stageBootstrap) == token; stays != c.stays {
					t.Errorf("restarted %t: it stays: %t", restarted, stays)
				}
			}
		})
	}
}
