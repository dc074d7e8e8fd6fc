package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// A push reaches the pools that use the profile, without any event on their
// MachineDeployments, and no others; nobody ever sees a Secret missing, a new
// bootstrap document beside an old provisioning one, or a credential in an
// OperatingSystemConfig.
func TestPushRotates(t *testing.T) {
	s := newSystem(t)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one"), "b.yaml": osp("osp-b", "v1.0.0", "echo one")})
	s.begin(first)
	s.pool("pool-a", "osp-a")
	s.pool("pool-b", "osp-b")
	s.served("pool-a", "v1.0.0")
	bBefore, _ := s.served("pool-b", "v1.0.0")
	s.eventually("the configuration to be reported as applied", func() error {
		return s.applied("pool-a")
	})
	mdBefore := s.machineDeployment("pool-a").ResourceVersion
	seen := s.watchUserData("pool-a")

	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	bootstrap, provisioning := s.served("pool-a", "v1.1.0")

	for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
		for key, want := range map[string]string{
			api.AnnotationCommit: second, api.AnnotationChange: second, api.AnnotationSelectedBy: second,
			api.AnnotationPath: "profiles/a.yaml", api.AnnotationRepository: s.git.url,
			api.AnnotationProfile: "osp-a", api.AnnotationVersion: "v1.1.0", api.AnnotationRevisionFor: "1",
			api.AnnotationPool: s.pools + "/pool-a",
		} {
			if got := secret.Annotations[key]; got != want {
				t.Errorf("%s: annotation %s is %q, want %q", secret.Name, key, got, want)
			}
		}
		if len(secret.Annotations[api.AnnotationMDAnnotationsHash]) != 64 {
			t.Errorf("%s: no hash of the pool's annotations", secret.Name)
		}
	}
	if !bytes.Contains(provisioning.Data[api.UserDataKey], []byte("echo two")) {
		t.Error("the provisioning document has old content")
	}
	if after := s.machineDeployment("pool-a").ResourceVersion; after != mdBefore {
		t.Error("the MachineDeployment was written to")
	}
	if bAfter, _, err := s.secrets("pool-b"); err != nil || bAfter.ResourceVersion != bBefore.ResourceVersion {
		t.Errorf("pool-b was touched (err %v)", err)
	}
	s.event("pool-a", api.EventConfigRotated, `from profile "osp-a" v1.0.0 at commit `+first[:12]+` to "osp-a" v1.1.0 at commit `+second[:12])
	seen.check(t)
	s.checkConfig("pool-a", "v1.1.0", second)
}

// checkConfig checks what an OperatingSystemConfig says of itself.
func (s *system) checkConfig(pool, version, commit string) {
	s.t.Helper()
	var osc osm.OperatingSystemConfig
	if err := s.get(namespace, pool+"-"+s.pools+"-config", &osc); err != nil {
		s.t.Fatal(err)
	}
	if got := osc.Annotations[api.AnnotationOSPVersion]; got != "gitops/"+version {
		s.t.Errorf("annotation %s is %q: the reference must not reuse this object", api.AnnotationOSPVersion, got)
	}
	var rec render.Record
	if err := json.Unmarshal([]byte(osc.Annotations[api.AnnotationRecord]), &rec); err != nil {
		s.t.Fatal(err)
	}
	if rec.Profile != "osp-a" || rec.Version != version || rec.Commit != commit || rec.Object != "osp-a-"+version || rec.SelectedBy != commit {
		s.t.Errorf("record is %+v", rec)
	}
	if rec.Digests.Input != osc.Annotations[api.AnnotationInputDigest] {
		s.t.Error("record and annotation name different input digests")
	}
	raw, err := json.Marshal(osc)
	if err != nil {
		s.t.Fatal(err)
	}
	for what, secret := range s.credentials() {
		if bytes.Contains(raw, []byte(secret)) {
			s.t.Errorf("the OperatingSystemConfig holds %s", what)
		}
	}
	var settings corev1.ConfigMap
	digest := rec.SettingsDigest[strings.LastIndex(rec.SettingsDigest, ":")+1:]
	if err := s.get(namespace, "osm-gitops-settings-"+digest[:12], &settings); err != nil {
		s.t.Errorf("the settings of the record: %v", err)
	}
}

// credentials lists what no OperatingSystemConfig may hold.
func (s *system) credentials() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	var getter corev1.Secret
	if err := s.get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter); err != nil {
		s.t.Fatal(err)
	}
	out["the getter's token"] = string(getter.Data["token"])
	for _, token := range s.tokens() {
		out["a bootstrap token"] = string(token.Data["token-secret"])
	}
	for _, token := range s.nodeTokens() {
		out["a pool's token"] = token
	}
	return out
}

func (s *system) tokens() []corev1.Secret {
	s.t.Helper()
	var list corev1.SecretList
	if err := s.client.List(s.t.Context(), &list, client.InNamespace(namespace), client.HasLabels{api.LabelTokenPool}); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// applied says what keeps the machines of a pool from booting what the pool asks for.
func (s *system) applied(pool string) error {
	var osc osm.OperatingSystemConfig
	if err := s.get(namespace, pool+"-"+s.pools+"-config", &osc); err != nil {
		return err
	}
	var secret corev1.Secret
	if err := s.get(api.NamespaceCloudInitSettings, pool+"-"+s.pools+"-bootstrap-config", &secret); err != nil {
		return err
	}
	has, want := secret.Annotations[api.AnnotationInputDigest], osc.Annotations[api.AnnotationInputDigest]
	if refused := osc.Annotations[api.AnnotationRefused]; refused != "" || has != want {
		return fmt.Errorf("refused is %q, the Secret is of %s, the configuration of %s", refused, has, want)
	}
	return nil
}

// newerRefused says where a configuration does not say that a newer one is refused.
func (s *system) newerRefused(pool string, says ...string) error {
	var osc osm.OperatingSystemConfig
	if err := s.get(namespace, pool+"-"+s.pools+"-config", &osc); err != nil {
		return err
	}
	if refused := osc.Annotations[api.AnnotationRefused]; refused == "" || !containsAll(refused, says) {
		return fmt.Errorf("refused is %q, want %q", refused, says)
	}
	return nil
}

// userDataWatch saw everything that happened to a pool's user-data Secrets.
type userDataWatch struct {
	mu      sync.Mutex
	events  []watch.Event
	stop    func()
	stopped chan struct{}
}

func (s *system) watchUserData(pool string) *userDataWatch {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	w, err := s.client.Watch(ctx, &corev1.SecretList{}, client.InNamespace(api.NamespaceCloudInitSettings))
	if err != nil {
		s.t.Fatal(err)
	}
	u := &userDataWatch{stopped: make(chan struct{}), stop: func() { w.Stop(); cancel() }}
	s.t.Cleanup(u.stop)
	go func() {
		defer close(u.stopped)
		for e := range w.ResultChan() {
			if secret, ok := e.Object.(*corev1.Secret); ok && strings.HasPrefix(secret.Name, pool+"-") {
				u.mu.Lock()
				u.events = append(u.events, e)
				u.mu.Unlock()
			}
		}
	}()
	return u
}

// check looks for an absence, and for a new bootstrap document beside an old
// provisioning one.
func (u *userDataWatch) check(t *testing.T) {
	t.Helper()
	u.stop()
	<-u.stopped
	input := map[string]string{}
	writes := 0
	for _, e := range u.events {
		secret := e.Object.(*corev1.Secret)
		if e.Type == watch.Deleted {
			t.Errorf("%s was deleted", secret.Name)
		}
		if e.Type == watch.Modified {
			writes++
		}
		input[secret.Name] = secret.Annotations[api.AnnotationInputDigest]
		var boot, prov string
		for name, digest := range input {
			switch {
			case strings.HasSuffix(name, "-bootstrap-config") && !strings.Contains(name, "kubelet"):
				boot = digest
			case strings.HasSuffix(name, "-provisioning-config"):
				prov = digest
			}
		}
		if strings.HasSuffix(secret.Name, "-bootstrap-config") && e.Type == watch.Modified && prov != "" && boot != prov {
			t.Errorf("a bootstrap document of %s stood beside a provisioning document of %s", boot, prov)
		}
	}
	if writes != 2 {
		t.Errorf("the user-data was written %d times, want once each", writes)
	}
}

// A deleted pool leaves nothing behind, nor does one whose annotation is removed.
func TestPoolRemoved(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	for name, remove := range map[string]func(md *machines.MachineDeployment) error{
		"deleted": func(md *machines.MachineDeployment) error { return s.client.Delete(t.Context(), md) },
		"given up": func(md *machines.MachineDeployment) error {
			return s.client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationOSP)))
		},
	} {
		pool := "pool-" + strconv.Itoa(len(name))
		s.run("a pool is "+name, func(t *testing.T) {
			s.pool(pool, "osp-a")
			s.served(pool, "v1.0.0")
			s.eventually("its documents", func() error { return s.applied(pool) })
			s.noError(remove(s.machineDeployment(pool)))
			key := pool + "-" + s.pools
			s.gone(api.NamespaceCloudInitSettings, key+"-bootstrap-config", &corev1.Secret{})
			s.gone(api.NamespaceCloudInitSettings, key+"-provisioning-config", &corev1.Secret{})
			s.gone(api.NamespaceCloudInitSettings, s.pools+"-"+pool+"-kubelet-bootstrap-config", &corev1.Secret{})
			s.gone(namespace, key+"-config", &osm.OperatingSystemConfig{})
			s.eventually("the identity of its machines to be gone", func() error { return s.noAccess(pool) })
			s.eventually("the token to be gone", func() error {
				for _, token := range s.tokens() {
					if token.Annotations[api.AnnotationPool] == s.pools+"/"+pool {
						return errors.New("it is there")
					}
				}
				return nil
			})
			s.eventually("the finalizer to be gone", func() error {
				var md machines.MachineDeployment
				if err := client.IgnoreNotFound(s.get(s.pools, pool, &md)); err != nil {
					return err
				}
				if len(md.Finalizers) > 0 {
					return fmt.Errorf("finalizers are %v", md.Finalizers)
				}
				return nil
			})
		})
	}
}

// A pool that cannot even be decoded is told so, and is nobody else's trouble.
func TestMalformedPool(t *testing.T) {
	s := newSystem(t)
	s.pool("bad", "osp-a", func(md map[string]any) {
		spec := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		spec["versions"] = map[string]any{"kubelet": 1.35}
	})
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	s.pool("good", "osp-a")
	s.served("good", "v1.0.0")
	s.event("bad", api.EventProfileError, "spec.template.spec.versions.kubelet", "holds a number", "put it in quotes")
	s.pool("bad", "osp-a")
	s.served("bad", "v1.0.0")
}

// Another folder of the same repository is another source.
func TestPathChanges(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one"), "team/b.yaml": osp("osp-b", "v1.0.0", "echo one")}))
	s.patchSource(`{"spec":{"path":"profiles/team"}}`)
	want := map[string]string{"osp-a": "v1.0.0 removed", "osp-b": "v1.0.0"}
	s.eventually("the other folder's profiles", func() error {
		if got := s.inventory(); !maps.Equal(got, want) {
			return fmt.Errorf("inventory is %v, want %v", got, want)
		}
		return nil
	})
	s.patchSource(`{"spec":{"path":"profiles"}}`)
	want["osp-a"] = "v1.0.0"
	s.eventually("both folders' profiles", func() error {
		if got := s.inventory(); !maps.Equal(got, want) {
			return fmt.Errorf("inventory is %v, want %v", got, want)
		}
		return nil
	})
}

// Pools that are deleted as soon as they are created leave nothing behind.
func TestShortLivedPools(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	const pools = 30
	for i := range pools {
		name := "brief-" + strconv.Itoa(i)
		s.pool(name, "osp-a")
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // a moment more each time
		s.noError(client.IgnoreNotFound(s.client.Delete(t.Context(), &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.pools, Name: name}})))
	}
	s.eventually("everything to be gone", func() error {
		for name := range s.versions() {
			if strings.Contains(name, "brief-") {
				return fmt.Errorf("%s is left", name)
			}
		}
		if tokens := s.tokens(); len(tokens) > 0 {
			return fmt.Errorf("%d tokens are left", len(tokens))
		}
		return nil
	})
}
