package pools

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// An error in an object that all pools share does not prevent the renewal of tokens.
func TestBrokenRegistrySecretStopsNoRenewal(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.r.RegistrySecret, f.r.Registry = client.ObjectKey{Namespace: f.r.Namespace, Name: "registries"}, f.client
	registries := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "registries"},
		Data:       map[string][]byte{"registry.example.com": []byte(`{"username":"u","password":"p"}`)},
	}
	f.ensure(registries)
	f.reconcile()
	renewed := func(what string) {
		first := f.carried(stageBootstrap)
		f.reconcile()
		f.pass(13 * time.Hour) // half of the token's life, and all of the jitter
		if f.carried(stageBootstrap) == first || f.carried(stageProvision) == first {
			t.Errorf("%s: the token was not renewed", what)
		}
	}
	f.patch(registries, `{"data":{"registry.example.com":"e30o"}}`)
	renewed("broken")
	f.patch(registries, `{"data":{"registry.example.com":"e30="}}`)
	f.reconcile()
	f.delete(registries)
	renewed("gone")
}

// If there are several invalid keys, the same one is named each time: a rejection that changes with
// the order of a map would be written to the configuration and start another run, in a loop.
func TestBrokenRegistrySecretIsToldOnce(t *testing.T) {
	f := newFixture(t)
	f.r.RegistrySecret, f.r.Registry = client.ObjectKey{Namespace: f.r.Namespace, Name: "registries"}, f.client
	registries := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "registries"},
		Data:       map[string][]byte{"registry.example.com": []byte(`{"username":"u","password":"p"}`)},
	}
	f.ensure(registries)
	f.reconcile()
	f.patch(registries, `{"data":{"username":"dQ==","password":"cA==","email":"ZQ=="}}`)
	f.reconcile()
	first := f.config()
	if first.Annotations[api.AnnotationRefused] == "" {
		t.Fatal("nothing is refused")
	}
	for range 20 {
		f.reconcile()
	}
	if now := f.config(); now.ResourceVersion != first.ResourceVersion {
		t.Errorf("the configuration was written again: %q, then %q", first.Annotations[api.AnnotationRefused], now.Annotations[api.AnnotationRefused])
	}
}

// An endless race is not a race: the pool runs less and less often, and an event reports it.
func TestEndlessRaceBacksOff(t *testing.T) {
	f := newFixture(t)
	said := f.told()
	lost := fmt.Errorf("%w: an object is held by a finalizer", fault.ErrRaced)
	var waits []time.Duration
	for range 12 {
		res, err := f.r.newReporter().report(f.pool, plan{}, nil, lost)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, res.RequeueAfter)
	}
	if waits[0] != racedRetry || waits[1] != 2*racedRetry || waits[11] < 10*time.Second || waits[11] > waitRetry {
		t.Errorf("it waits %v", waits)
	}
	if len(said.told) != 1 {
		t.Errorf("it is told %q", said.told)
	}
	said.saidLast(t, api.EventWriteRefused, "held by a finalizer")
	f.reconcile()
	if res, err := f.r.newReporter().report(f.pool, plan{}, nil, lost); err != nil || res.RequeueAfter != racedRetry {
		t.Errorf("after a run that went well it waits %s (err %v)", res.RequeueAfter, err)
	}
}

// pastConfig is a cache that does not follow the configuration of a pool.
type pastConfig struct {
	client.Client
	past *metav1.PartialObjectMetadata
}

func (c pastConfig) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if into, ok := obj.(*metav1.PartialObjectMetadata); ok && key == client.ObjectKeyFromObject(c.past) {
		c.past.DeepCopyInto(into)
		return nil
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// A write that is rejected since the cache is behind is retried with what the API server has, however
// long the cache stays behind, and no event is emitted.
func TestRaceWithACacheThatStaysBehind(t *testing.T) {
	f := newFixture(t)
	said := f.told()
	f.reconcile()
	past := kubeclient.Metadata(kubeclient.ConfigKind)
	must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(f.config()), past))
	f.kubelet("1.35.1", "1")
	f.r.Management.Client = pastConfig{f.r.Management.Client, past}
	f.patch(f.pool, `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.35.2"}}}}}`)
	for range reportAfterRaces + 1 {
		f.reconcile()
	}
	if err := f.ready(f.pool, "1.35.2"); err != nil {
		t.Error(err)
	}
	if all := strings.Join(said.told, "\n"); strings.Contains(all, api.EventWriteRefused) {
		t.Errorf("told was:\n%s", all)
	}
}

// A document with a token of its pool is ours, also in a Secret that a user made immutable: it is
// not taken over, and gets no shared token.
func TestImmutableByHandIsNotTakenOver(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	bootstrap := f.secret(namesOf(f.pool).Bootstrap)
	f.patch(bootstrap, `{"immutable":true}`)
	have, err := f.r.reader().objects(t.Context(), f.r.reader().live(), f.pool)
	if err != nil {
		t.Fatal(err)
	}
	if have.hasOSMDocuments() {
		t.Error("it counts as made by somebody else")
	}
	f.reconcile()
	if after := f.secret(bootstrap.Name); after.UID != bootstrap.UID {
		t.Error("it was replaced, and nothing had changed")
	}
}
