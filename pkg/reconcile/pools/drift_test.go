package pools

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Objects that a user deletes or edits are restored, and the event names what changed, never its
// value.
func TestHandmadeChangesAreUndone(t *testing.T) {
	bootstrap := func(f *fixture) *corev1.Secret { return f.secret(namesOf(f.pool).Bootstrap) }
	provisioning := func(f *fixture) *corev1.Secret { return f.secret(namesOf(f.pool).Provisioning) }
	kubeconfig := func(f *fixture) *corev1.Secret { return f.secret(namesOf(f.pool).Kubeconfig) }
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   []string
	}{
		"bootstrap deleted":    {func(f *fixture) { f.delete(bootstrap(f)) }, []string{"Secret POOL-bootstrap-config was missing"}},
		"provisioning deleted": {func(f *fixture) { f.delete(provisioning(f)) }, []string{"Secret POOL-provisioning-config was missing"}},
		"kubeconfig deleted":   {func(f *fixture) { f.delete(kubeconfig(f)) }, []string{"-kubelet-bootstrap-config was missing"}},
		"both documents deleted": {func(f *fixture) { f.delete(bootstrap(f)); f.delete(provisioning(f)) },
			[]string{"Secret POOL-bootstrap-config was missing", "Secret POOL-provisioning-config was missing"}},
		"the configuration deleted": {func(f *fixture) { f.delete(f.config()) }, []string{"OperatingSystemConfig POOL-config was missing"}},
		"bootstrap edited":          {func(f *fixture) { f.patch(bootstrap(f), `{"stringData":{"cloud-config":"canary"}}`) }, []string{"key cloud-config of Secret POOL-bootstrap-config"}},
		"provisioning edited":       {func(f *fixture) { f.patch(provisioning(f), `{"stringData":{"cloud-config":"canary"}}`) }, []string{"key cloud-config of Secret POOL-provisioning-config"}},
		"kubeconfig edited":         {func(f *fixture) { f.patch(kubeconfig(f), `{"stringData":{"kubeconfig":"canary"}}`) }, []string{"key kubeconfig of Secret "}},
		"a key added":               {func(f *fixture) { f.patch(provisioning(f), `{"stringData":{"canary":"canary"}}`) }, []string{"keys of Secret POOL-provisioning-config"}},
		"a key removed":             {func(f *fixture) { f.patch(provisioning(f), `{"data":null}`) }, []string{"key cloud-config of Secret POOL-provisioning-config"}},
		"an annotation of a Secret": {func(f *fixture) {
			f.patch(bootstrap(f), `{"metadata":{"annotations":{"gitops.k8c.io/profile":"canary","k8c.io/machine-deployment-revision":"canary"}}}`)
		}, []string{"annotation gitops.k8c.io/profile of Secret POOL-bootstrap-config", "annotation k8c.io/machine-deployment-revision of Secret POOL-bootstrap-config"}},
		"an annotation of the configuration": {func(f *fixture) {
			f.patch(f.config(), `{"metadata":{"annotations":{"gitops.k8c.io/version":"canary"}}}`)
		},
			[]string{"annotation gitops.k8c.io/version of OperatingSystemConfig POOL-config"}},
		"the owner of a Secret": {func(f *fixture) {
			f.patch(bootstrap(f), `{"metadata":{"annotations":{"gitops.k8c.io/machine-deployment":null}}}`)
		}, []string{"annotation gitops.k8c.io/machine-deployment of Secret"}},
		"the owner of the configuration": {func(f *fixture) {
			f.patch(f.config(), `{"metadata":{"annotations":{"gitops.k8c.io/machine-deployment":"canary/x"}}}`)
		}, []string{"annotation gitops.k8c.io/machine-deployment of OperatingSystemConfig"}},
		"the record of the configuration": {func(f *fixture) {
			f.patch(f.config(), `{"metadata":{"annotations":{"gitops.k8c.io/record":"canary"}}}`)
		}, []string{"annotation gitops.k8c.io/record of OperatingSystemConfig POOL-config"}},
		"the token's rights": {func(f *fixture) {
			f.patch(&f.tokens(f.t.Context())[0], `{"stringData":{"usage-bootstrap-authentication":"canary","auth-extra-groups":"canary"},"data":{"usage-bootstrap-signing":null}}`)
		}, []string{"key auth-extra-groups of Secret bootstrap-token-", "key usage-bootstrap-authentication of Secret bootstrap-token-", "key usage-bootstrap-signing of Secret bootstrap-token-"}},
		"credentials deleted": {func(f *fixture) { f.delete(f.secret(namesOf(f.pool).Inputs)) }, []string{"Secret POOL-inputs was missing"}},
		"credentials edited": {func(f *fixture) {
			inputs := f.secret(namesOf(f.pool).Inputs)
			f.patch(inputs, `{"stringData":{"`+slices.Collect(keysOf(inputs.Data))[0]+`":"canary"}}`)
		}, []string{" of Secret POOL-inputs"}},
		"a key of credentials removed": {func(f *fixture) { f.patch(f.secret(namesOf(f.pool).Inputs), `{"data":null}`) }, []string{" of Secret POOL-inputs"}},
		"nothing":                      {func(*fixture) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.r.Settings.NodeHTTPProxy = "http://user:secret@proxy.example.com"
			f.patch(f.pool, `{"metadata":{"annotations":{"machinedeployment.clusters.k8s.io/revision":"1"}}}`)
			f.reconcile()
			secrets := []*corev1.Secret{bootstrap(f), provisioning(f), kubeconfig(f), f.secret(namesOf(f.pool).Inputs), &f.tokens(t.Context())[0]}
			config := f.config()
			c.change(f)
			said := &remembered{EventRecorder: f.r.Recorder}
			f.r.Recorder = said
			f.reconcile()
			for _, was := range secrets {
				now := &corev1.Secret{}
				must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(was), now))
				if !maps.EqualFunc(now.Data, was.Data, bytes.Equal) || !sameKeys(now.Annotations, was.Annotations, slices.Collect(keysOf(was.Annotations))...) {
					t.Errorf("%s is not as it was", was.Name)
				}
			}
			if now := f.config(); !sameKeys(now.Annotations, config.Annotations, slices.Collect(keysOf(config.Annotations))...) {
				t.Errorf("the configuration is not as it was: %v", now.Annotations)
			}
			told := strings.ReplaceAll(strings.Join(said.told, "\n"), namesOf(f.pool).Config, "POOL-config")
			told = strings.ReplaceAll(told, f.pool.Name+"-"+f.pool.Namespace, "POOL")
			if len(c.want) == 0 && told != "" || len(said.told) != min(len(c.want), 1) || strings.Contains(told, "canary") {
				t.Errorf("told was %q", told)
			}
			for _, want := range c.want {
				if !strings.Contains(told, want) || !strings.HasPrefix(told, api.EventConfigRestored) {
					t.Errorf("told was %q, want %q", told, want)
				}
			}
			versions := f.versions()
			if f.reconcile(); !slices.Equal(f.versions(), versions) || len(said.told) > 1 {
				t.Errorf("a second run wrote, or told %q", said.told)
			}
		})
	}
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// A rotation, a renewal and a new revision are not reported as edits by a user.
func TestOwnChangesAreNoEdits(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	said := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = said
	f.patch(f.pool, `{"metadata":{"annotations":{"machinedeployment.clusters.k8s.io/revision":"1"}}}`)
	f.reconcile()
	f.rotate("v1.1.0")
	f.clock.Step(40 * time.Minute)
	f.reconcile()
	f.clock.Step(3 * time.Hour) // a new token
	f.reconcile()
	f.r.OverrideServer = "https://other:6443"
	f.reconcile()
	f.r.Settings.NodeHTTPProxy = "http://user:secret@proxy.example.com"
	f.reconcile()
	f.r.Settings.NodeHTTPProxy = "http://user:another@proxy.example.com"
	f.reconcile()
	if told := strings.Join(said.told, "\n"); strings.Contains(told, api.EventConfigRestored) {
		t.Errorf("told was %q", told)
	}
}

// A MachineDeployment that stops being a pool is released: its objects are deleted, the finalizer
// last, no matter which controller made them and which errors the pool has.
func TestRelease(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(t *testing.T) *fixture
		leave func(f *fixture)
	}{
		"the annotation is removed": {newFixture, func(f *fixture) {
			f.patch(f.pool, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":null}}}`)
		}},
		"the annotation is removed, then the pool": {newFixture, func(f *fixture) {
			f.patch(f.pool, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":null}}}`)
			f.delete(f.pool)
		}},
		"the pool is removed while its profile is gone": {newFixture, func(f *fixture) {
			f.delete(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-hand"}})
			f.delete(f.pool)
		}},
		"the pool is removed while the API server's address is not known": {newFixture, func(f *fixture) {
			f.r.ClusterInfo = unreadable{f.client}
			f.delete(f.pool)
		}},
		"the annotation of a pool of another controller": {newLegacyFixture, func(f *fixture) {
			f.patch(f.pool, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":null}}}`)
		}},
		"a pool of another controller": {newLegacyFixture, func(f *fixture) { f.delete(f.pool) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.begin(t)
			legacy := f.pool.Name == "legacy"
			if !legacy {
				f.reconcile()
			}
			c.leave(f)
			f.reconcile()
			var md machines.MachineDeployment
			if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &md); err == nil && controllerutil.ContainsFinalizer(&md, api.FinalizerPool) {
				t.Error("the finalizer is still there")
			} else if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			have, err := f.r.reader().objects(t.Context(), f.r.reader().live(), f.pool)
			if err != nil || len(have.listExisting()) != 0 {
				t.Errorf("left are %v (err %v)", have.listExisting(), err)
			}
			if tokens := f.tokens(t.Context()); len(tokens) != 0 && !legacy { // an unowned one ends by itself
				t.Errorf("%d tokens are left", len(tokens))
			}
			if records := f.records(); len(records) != 1 && !legacy {
				t.Errorf("there are %d records", len(records))
			}
		})
	}
}
