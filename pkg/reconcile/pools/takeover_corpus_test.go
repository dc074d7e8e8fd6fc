package pools

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// Documents that OSM made are preserved: OSM rendered the profiles of the corpus for pools of
// every system and provider, and the test takes them over with OSM's credentials.
func TestTakeOverCorpus(t *testing.T) {
	taken := map[string]int{}
	for _, c := range conformance.Cases(t) {
		if c.WantError != "" {
			continue
		}
		const perProfile = 2 // pools of one profile differ by what pkg/render tests
		if taken[c.ProfileName]++; taken[c.ProfileName] > perProfile {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			f := newCorpusFixture(t, c)
			before := []*corev1.Secret{f.secret(namesOf(f.pool).Bootstrap), f.secret(namesOf(f.pool).Provisioning)}
			said := &remembered{EventRecorder: f.r.Recorder}
			f.r.Recorder = said
			f.reconcile()
			for _, was := range before {
				if now := f.secret(was.Name); now.UID != was.UID || !bytes.Equal(now.Data[api.UserDataKey], was.Data[api.UserDataKey]) || lineage.PoolOf(now) != poolKey(f.pool) {
					t.Errorf("%s was replaced, or is of %q: %q", was.Name, lineage.PoolOf(now), said.told)
				}
			}
			if osc := f.config(); recordOf(osc).Profile != c.ProfileName || osc.Spec.CloudProvider.Spec != nil {
				t.Error("the configuration is still the reference's")
			}
			if got := f.tokens(t.Context()); len(got) != 1 || !strings.HasPrefix(c.Cluster.BootstrapToken, string(got[0].Data[bootstrapapi.BootstrapTokenIDKey])) {
				t.Errorf("there are %d tokens, or another one", len(got))
			}
			versions := f.versions()
			f.reconcile()
			if now := f.versions(); !slices.Equal(now, versions) {
				t.Errorf("a second run wrote: %v, then %v", versions, now)
			}
		})
	}
}

// newCorpusFixture has the pool of a case, as the reference left it, in a cluster with
// the case's tokens.
func newCorpusFixture(t *testing.T, c conformance.Case) *fixture {
	t.Helper()
	f := newFixture(t)
	f.r.NodeTokenTTL = 24 * time.Hour
	f.useToken(c.Cluster.APIServerToken)
	f.r.Settings, f.r.CA, f.r.OverrideServer = c.Settings, c.Settings.KubernetesCACert, c.Cluster.Server
	f.r.Settings.RegistryCredentials = nil
	if len(c.Settings.RegistryCredentials) > 0 {
		f.r.RegistrySecret, f.r.Registry = types.NamespacedName{Namespace: f.r.Namespace, Name: "registries"}, f.client
		auths, err := json.Marshal(map[string]any{"auths": c.Settings.RegistryCredentials})
		if err != nil {
			t.Fatal(err)
		}
		f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "registries"},
			Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: auths}})
	}
	f.ensure(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: c.ProfileName}, Spec: c.Profile(t).Spec})
	f.pool = c.MachineDeployment(t)
	metav1.SetMetaDataAnnotation(&f.pool.ObjectMeta, api.AnnotationMDRevision, "1")
	metav1.SetMetaDataAnnotation(&f.pool.ObjectMeta, api.AnnotationOSP, c.ProfileName)
	delete(f.pool.Annotations, api.AnnotationOSPNamespace)
	f.ensure(f.pool)
	t.Cleanup(func() { f.end(f.pool) })
	f.legacySecrets(f.pool, string(c.WantBootstrap), string(c.WantProvisioning))
	for _, s := range f.tokens(t.Context()) { // the documents carry this one
		f.delete(&s)
	}
	id, secret, _ := strings.Cut(c.Cluster.BootstrapToken, ".")
	f.ensure(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id, Labels: map[string]string{api.LabelTokenPool: lineage.TokenLabel(keyOf(f.pool))}},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "expiration": string(token.Expiration(f.clock.Now().Add(50 * time.Minute)))},
	})
	f.ensure(&osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config, Annotations: legacyAnnotations(f.pool)}, Spec: c.WantOSC.Spec})
	return f
}

// end removes a pool and what it has.
func (f *fixture) end(md *machines.MachineDeployment) {
	f.t.Helper()
	ctx := context.WithoutCancel(f.t.Context())
	if err := client.IgnoreNotFound(f.client.Delete(ctx, md)); err != nil {
		f.t.Error(err)
	}
	if _, err := f.r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(md)}); err != nil {
		f.t.Error(err)
	}
}

// Many pools that are taken over at once: each Secret is deleted and created once, and
// the test says how long it was not there.
func TestTakeOverGap(t *testing.T) {
	const pools = 60
	f := newLegacyFixture(t)
	f.osp("osp-legacy", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.BootstrapConfig.Files[0].Content.Inline.Data = "changed"
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "changed"
	})
	mds := []*machines.MachineDeployment{f.pool}
	for i := range pools - 1 {
		md := f.legacyPool(f.r.Namespace, "legacy-"+string(rune('a'+i/26))+string(rune('a'+i%26)))
		f.legacyObjects(md, legacyBootstrap, legacyProvisioning)
		mds = append(mds, md)
	}
	seen := watchSecrets(t, cluster.Shared(t), "-"+f.r.Namespace+"-")
	var group sync.WaitGroup
	work := make(chan *machines.MachineDeployment)
	for range 10 { // --worker-count
		group.Go(func() {
			for md := range work {
				if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(md)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, md := range mds {
		work <- md
	}
	close(work)
	group.Wait()
	deleted, gaps := seen()
	if len(deleted) != 2*pools {
		t.Errorf("%d Secrets were deleted, want %d", len(deleted), 2*pools)
	}
	for name, times := range deleted {
		if times != 1 {
			t.Errorf("%s was deleted %d times", name, times)
		}
	}
	if len(gaps) != 2*pools {
		t.Fatalf("%d Secrets came back, want %d", len(gaps), 2*pools)
	}
	slices.Sort(gaps)
	t.Logf("%d Secrets were absent for %s at the median, %s at p99, %s at most", len(gaps), gaps[len(gaps)/2], gaps[len(gaps)*99/100], gaps[len(gaps)-1])
}

// watchSecrets follows Secrets with a part in their names until the returned function
// is called: how often each was deleted, and how long each was absent.
func watchSecrets(t *testing.T, c *cluster.Cluster, part string) func() (map[string]int, []time.Duration) {
	t.Helper()
	w, err := c.Client(t).Watch(t.Context(), &corev1.SecretList{}, client.InNamespace(api.NamespaceCloudInitSettings))
	if err != nil {
		t.Fatal(err)
	}
	deleted, since := map[string]int{}, map[string]time.Time{}
	var gaps []time.Duration
	done, idle := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case e, ok := <-w.ResultChan():
				s, isSecret := e.Object.(*corev1.Secret)
				switch {
				case !ok:
					return
				case !isSecret || !strings.Contains(s.Name, part):
				case e.Type == watch.Deleted:
					deleted[s.Name]++
					since[s.Name] = time.Now()
				case e.Type == watch.Added && !since[s.Name].IsZero():
					gaps = append(gaps, time.Since(since[s.Name]))
					delete(since, s.Name)
				}
			case <-idle:
				return
			}
		}
	}()
	return func() (map[string]int, []time.Duration) {
		time.Sleep(time.Second) // for events under way
		close(idle)
		<-done
		w.Stop()
		return deleted, gaps
	}
}
