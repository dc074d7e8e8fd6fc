package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
		return s.condition("pool-a", metav1.ConditionTrue, api.ReasonConfigApplied)
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
	s.eventually("the digests in the status", func() error {
		if err := s.get(namespace, osc.Name, &osc); err != nil {
			return err
		}
		if osc.Status.Digests == nil || *osc.Status.Digests != rec.Digests {
			return fmt.Errorf("digests are %+v", osc.Status.Digests)
		}
		return nil
	})
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

func (s *system) condition(pool string, status metav1.ConditionStatus, reason string, says ...string) error {
	var osc osm.OperatingSystemConfig
	if err := s.get(namespace, pool+"-"+s.pools+"-config", &osc); err != nil {
		return err
	}
	c := apimeta.FindStatusCondition(osc.Status.Conditions, meta.ReadyCondition)
	if c == nil || c.Status != status || c.Reason != reason || !containsAll(c.Message, says) {
		return fmt.Errorf("condition is %+v", c)
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

// A restart of the controller on a settled cluster writes nothing.
func TestRestartWritesNothing(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	for _, pool := range []string{"pool-a", "pool-b"} {
		s.pool(pool, "osp-a")
		s.served(pool, "v1.0.0")
		s.eventually("its status", func() error { return s.condition(pool, metav1.ConditionTrue, api.ReasonConfigApplied) })
	}
	s.stop()
	before := s.versions()
	mark := s.auditSize()
	s.start()
	// A pool that comes now is handled after those that are there.
	s.pool("pool-c", "osp-a")
	s.served("pool-c", "v1.0.0")
	s.eventually("its status", func() error { return s.condition("pool-c", metav1.ConditionTrue, api.ReasonConfigApplied) })
	// A write of the same bytes moves no version, but the API server's log has it.
	created := 0
	for _, w := range s.writesSince(mark) {
		switch {
		case strings.Contains(w, "/events"), strings.Contains(w, "pool-c"):
		case strings.HasPrefix(w, "create "): // names no object
			created++
		default:
			t.Errorf("the restart wrote: %s", w)
		}
	}
	// Of pool-c: bootstrap token, kubeconfig, configuration, two documents; ServiceAccount, Role, RoleBinding.
	if created != 8 {
		t.Errorf("the restart created %d objects, want 8: %q", created, s.writesSince(mark))
	}
	s.ready(s.git.push(map[string]string{"notes.txt": "unrelated"}))
	after := s.versions()
	maps.DeleteFunc(after, func(name, _ string) bool { _, ok := before[name]; return !ok })
	delete(before, "*v1alpha1.ProfileSource osps") // its revision moved
	delete(after, "*v1alpha1.ProfileSource osps")
	if !maps.Equal(before, after) {
		t.Errorf("before the restart\n%v\nafter it\n%v", before, after)
	}
}

// versions lists everything the controller writes, by name, with its version.
func (s *system) versions() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for list, in := range map[client.ObjectList]string{
		&osm.OperatingSystemProfileList{}: "", &osm.OperatingSystemConfigList{}: "", &api.ProfileSourceList{}: "", &machines.MachineDeploymentList{}: "", &corev1.SecretList{}: "",
		&corev1.ServiceAccountList{}: api.NamespaceCloudInitSettings, &rbacv1.RoleList{}: api.NamespaceCloudInitSettings, &rbacv1.RoleBindingList{}: api.NamespaceCloudInitSettings,
	} {
		if err := s.client.List(s.t.Context(), list, client.InNamespace(in)); err != nil {
			s.t.Fatal(err)
		}
		if err := apimeta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			out[fmt.Sprintf("%T %s", obj, obj.GetName())] = obj.GetResourceVersion()
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
	}
	return out
}

// What is deleted or edited by hand comes back.
func TestSelfHealing(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	s.pool("pool-a", "osp-a")
	bootstrap, provisioning := s.served("pool-a", "v1.0.0")
	s.eventually("its status", func() error { return s.condition("pool-a", metav1.ConditionTrue, api.ReasonConfigApplied) })

	s.run("a Secret is deleted", func(t *testing.T) {
		s.noError(s.client.Delete(t.Context(), bootstrap))
		s.eventually("the Secret to be back", func() error {
			again, _, err := s.secrets("pool-a")
			if err == nil && (again.UID == bootstrap.UID || !bytes.Equal(again.Data[api.UserDataKey], bootstrap.Data[api.UserDataKey])) {
				err = errors.New("is not as it was")
			}
			return err
		})
	})
	s.run("a Secret is edited", func(t *testing.T) {
		edited := provisioning.DeepCopy()
		edited.Data[api.UserDataKey] = []byte("#cloud-config\n")
		s.noError(s.client.Update(t.Context(), edited))
		s.eventually("the document to be back", func() error {
			_, again, err := s.secrets("pool-a")
			if err == nil && !bytes.Equal(again.Data[api.UserDataKey], provisioning.Data[api.UserDataKey]) {
				err = errors.New("is not as it was")
			}
			return err
		})
	})
	s.run("the kubelet's kubeconfig is deleted", func(t *testing.T) {
		name := s.pools + "-pool-a-kubelet-bootstrap-config"
		var secret corev1.Secret
		s.noError(s.get(api.NamespaceCloudInitSettings, name, &secret))
		s.noError(s.client.Delete(t.Context(), secret.DeepCopy()))
		s.eventually("the kubeconfig to be back", func() error {
			var again corev1.Secret
			if err := s.get(api.NamespaceCloudInitSettings, name, &again); err != nil {
				return err
			}
			if !bytes.Equal(again.Data[api.KubeconfigKey], secret.Data[api.KubeconfigKey]) {
				return errors.New("is not as it was")
			}
			return nil
		})
	})
	s.run("the configuration is deleted", func(t *testing.T) {
		var osc osm.OperatingSystemConfig
		s.noError(s.get(namespace, "pool-a-"+s.pools+"-config", &osc))
		s.noError(s.client.Delete(t.Context(), &osc))
		s.eventually("the configuration to be back", func() error {
			return s.condition("pool-a", metav1.ConditionTrue, api.ReasonConfigApplied)
		})
	})
	s.run("the profile's object is deleted", func(t *testing.T) {
		s.noError(s.client.Delete(t.Context(), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "osp-a-v1.0.0"}}))
		s.eventually("the profile to be back", func() error { return s.get(namespace, "osp-a-v1.0.0", &osm.OperatingSystemProfile{}) })
	})
	s.run("the cluster's endpoint moves", func(t *testing.T) {
		s.clusterInfo("https://moved.example.com:6443", caOf(t, s.cluster))
		s.eventually("the bootstrap document to name it", func() error {
			again, _, err := s.secrets("pool-a")
			if err == nil && !bytes.Contains(again.Data[api.UserDataKey], []byte("https://moved.example.com:6443")) {
				err = errors.New("names the old one")
			}
			return err
		})
	})
}

// machine-controller's revision moves the annotation and nothing else; a
// reconcile request is answered; a suspended source stands still.
func TestRequests(t *testing.T) {
	s := newSystem(t)
	commit := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source(func(spec map[string]any) { spec["interval"] = "1h" })
	s.start()
	s.ready(commit)
	s.pool("pool-a", "osp-a")
	before, _ := s.served("pool-a", "v1.0.0")

	s.run("the revision follows", func(t *testing.T) {
		s.pool("pool-a", "osp-a", annotate(api.AnnotationMDRevision, "2"))
		s.eventually("the revision on both Secrets", func() error {
			bootstrap, provisioning, err := s.secrets("pool-a")
			if err != nil {
				return err
			}
			for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
				if got := secret.Annotations[api.AnnotationRevisionFor]; got != "2" {
					return fmt.Errorf("%s has %q", secret.Name, got)
				}
			}
			if !bytes.Equal(bootstrap.Data[api.UserDataKey], before.Data[api.UserDataKey]) || bootstrap.UID != before.UID {
				t.Error("the document changed with the revision")
			}
			return nil
		})
	})
	s.run("an annotation that changes nothing writes nothing", func(t *testing.T) {
		bootstrap, _, err := s.secrets("pool-a")
		s.noError(err)
		s.pool("pool-a", "osp-a", annotate(api.AnnotationMDRevision, "2"), annotate("example.com/note", "hello"))
		s.pool("marker", "osp-a") // is handled after it
		s.served("marker", "v1.0.0")
		after, _, err := s.secrets("pool-a")
		if err != nil || after.ResourceVersion != bootstrap.ResourceVersion {
			t.Errorf("the Secret was written (err %v)", err)
		}
	})
	s.run("a reconcile request is answered", func(t *testing.T) {
		next := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
		s.patchSource(fmt.Sprintf(`{"metadata":{"annotations":{%q:"now-1"}}}`, meta.ReconcileRequestAnnotation))
		s.ready(next)
		if got := s.profileSource().Status.GetLastHandledReconcileRequest(); got != "now-1" {
			t.Errorf("lastHandledReconcileAt is %q", got)
		}
		s.served("pool-a", "v1.1.0")
	})
	s.run("a suspended source stands still", func(t *testing.T) {
		s.patchSource(`{"spec":{"suspend":true}}`)
		requests := s.git.seen.Load()
		s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.2.0", "echo three")})
		s.patchSource(fmt.Sprintf(`{"metadata":{"annotations":{%q:"now-2"}}}`, meta.ReconcileRequestAnnotation))
		time.Sleep(time.Second) // a request would have come by now, as it did above
		if now := s.git.seen.Load(); now != requests {
			t.Errorf("the source was asked %d times", now-requests)
		}
		s.patchSource(`{"spec":{"suspend":false}}`)
		s.served("pool-a", "v1.2.0")
	})
	s.run("a part that is not built is refused", func(t *testing.T) {
		s.patchSource(`{"spec":{"rollout":{"gate":"Waves"}}}`)
		s.refused(api.ReasonUnsupported, "this release does not have spec.rollout.gate: Waves yet: remove it")
		s.patchSource(`{"spec":{"rollout":null}}`)
		s.eventually("the source to be ready", func() error {
			if c := apimeta.FindStatusCondition(s.profileSource().Status.Conditions, "Ready"); c == nil || c.Status != metav1.ConditionTrue {
				return fmt.Errorf("condition is %+v", c)
			}
			return nil
		})
	})
}

func (s *system) patchSource(patch string) {
	s.t.Helper()
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "osps"}}
	if err := s.client.Patch(s.t.Context(), ps, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.t.Fatal(err)
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
			s.eventually("its status", func() error { return s.condition(pool, metav1.ConditionTrue, api.ReasonConfigApplied) })
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

// When the new profile cannot be rendered for a pool, the last good generation is
// kept alive from its record: documents get new tokens, under the old revision.
func TestLastGoodGenerationIsMaintained(t *testing.T) {
	s := newSystem(t)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source()
	s.start("--node-http-proxy", "http://user:pr0xy-c4nary@proxy.example.com:3128")
	s.ready(first)
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.0.0")

	// Nothing is wrong with the template as such: it reads what this pool lacks.
	s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo {{ .NetworkConfig.CIDR }}")})
	s.event("pool-a", api.EventProfileError, `rendering profile "osp-a" v1.1.0`, "NetworkConfig")
	s.eventually("the refusal on the configuration", func() error {
		return s.condition("pool-a", metav1.ConditionFalse, api.ReasonNewerRefused, "v1.1.0", "NetworkConfig")
	})
	_, before := s.served("pool-a", "v1.0.0")
	s.pool("pool-a", "osp-a", annotate(api.AnnotationMDRevision, "2"))
	for _, token := range s.tokens() {
		s.noError(s.client.Delete(t.Context(), &token))
	}
	s.eventually("the document to carry another token", func() error {
		_, now, err := s.secrets("pool-a")
		if err != nil {
			return err
		}
		if bytes.Equal(now.Data[api.UserDataKey], before.Data[api.UserDataKey]) {
			return errors.New("is as it was")
		}
		if !bytes.Contains(now.Data[api.UserDataKey], []byte("echo one")) || now.Annotations[api.AnnotationOSPVersion] != "v1.0.0" {
			t.Error("the content is not the last good one")
		}
		if got := now.Annotations[api.AnnotationRevisionFor]; got != "1" {
			t.Errorf("the revision moved to %q with the content of an old template", got)
		}
		return nil
	})
	if tokens := s.tokens(); len(tokens) != 1 {
		t.Errorf("there are %d tokens", len(tokens))
	}
	s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.1", "echo two")})
	bootstrap, _ := s.served("pool-a", "v1.1.1")
	if got := bootstrap.Annotations[api.AnnotationRevisionFor]; got != "2" {
		t.Errorf("revision is %q", got)
	}
	s.eventually("the configuration to be good again", func() error {
		return s.condition("pool-a", metav1.ConditionTrue, api.ReasonConfigApplied)
	})
	var osc osm.OperatingSystemConfig
	s.noError(s.get(namespace, "pool-a-"+s.pools+"-config", &osc))
	if raw, _ := json.Marshal(osc); bytes.Contains(raw, []byte("c4nary")) {
		t.Error("the OperatingSystemConfig holds the proxy's password")
	}
}

// auditSize marks a place in the API server's log.
func (s *system) auditSize() int64 {
	s.t.Helper()
	info, err := os.Stat(s.cluster.AuditLog())
	if err != nil {
		s.t.Fatal(err)
	}
	return info.Size()
}

// writesSince lists what the controller's ServiceAccount has written since.
func (s *system) writesSince(mark int64) []string {
	s.t.Helper()
	f, err := os.Open(s.cluster.AuditLog())
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(mark, io.SeekStart); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.User.Username != "system:serviceaccount:"+namespace+":osm-gitops" {
			continue
		}
		switch e.Verb {
		case "create", "update", "patch", "delete":
			out = append(out, e.Verb+" "+e.RequestURI)
		}
	}
	return out
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

// The controller is killed again and again while a push rotates its pools: they
// converge, with one token each, and nobody ever misses a Secret.
func TestKilledDuringRotation(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	const pools, kills = 20, 5
	name := func(i int) string { return fmt.Sprintf("pool-%02d", i) }
	for i := range pools {
		s.pool(name(i), "osp-a")
	}
	for i := range pools {
		s.served(name(i), "v1.0.0")
	}
	seen := s.watchUserData("pool")
	s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	for i := range kills {
		s.kill()
		s.start()
		time.Sleep(time.Duration(500+150*i) * time.Millisecond) // later in the rotation each time
	}
	for i := range pools {
		bootstrap, provisioning := s.served(name(i), "v1.1.0")
		if bootstrap.Annotations[api.AnnotationInputDigest] != provisioning.Annotations[api.AnnotationInputDigest] {
			t.Errorf("%s: the documents are of two generations", name(i))
		}
	}
	if got := len(s.tokens()); got != pools {
		t.Errorf("there are %d tokens for %d pools", got, pools)
	}
	seen.stop()
	<-seen.stopped
	for _, e := range seen.events {
		if e.Type == watch.Deleted {
			t.Errorf("%s was deleted", e.Object.(*corev1.Secret).Name)
		}
	}
}

// kill ends the controller as a crash would.
func (s *system) kill() {
	s.t.Helper()
	s.noError(s.process.Process.Kill())
	<-s.exited
	s.process = nil
}
