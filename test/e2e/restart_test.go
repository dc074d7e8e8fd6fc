package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
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
)

// A restart of the controller on a settled cluster writes nothing.
func TestRestartWritesNothing(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	for _, pool := range []string{"pool-a", "pool-b"} {
		s.pool(pool, "osp-a")
		s.served(pool, "v1.0.0")
		s.eventually("its documents", func() error { return s.applied(pool) })
	}
	s.stop()
	before := s.versions()
	mark := s.auditSize()
	s.start()
	// A pool that comes now is handled after those that are there.
	s.pool("pool-c", "osp-a")
	s.served("pool-c", "v1.0.0")
	s.eventually("its documents", func() error { return s.applied("pool-c") })
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
	s.eventually("its documents", func() error { return s.applied("pool-a") })

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
			return s.applied("pool-a")
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
}

func (s *system) patchSource(patch string) {
	s.t.Helper()
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "osps"}}
	if err := s.client.Patch(s.t.Context(), ps, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.t.Fatal(err)
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
		return s.newerRefused("pool-a", "v1.1.0", "NetworkConfig")
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
		return s.applied("pool-a")
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
	var out []string
	for _, a := range s.attempts(mark, "osm-gitops") {
		out = append(out, a.Verb+" "+a.RequestURI)
	}
	return out
}

// attempt is an entry of the audit log.
type attempt struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ResponseStatus   struct{ Code int }
}

// attempts are the requests of a ServiceAccount that would write, in their order.
func (s *system) attempts(mark int64, account string) []attempt {
	s.t.Helper()
	f, err := os.Open(s.cluster.AuditLog())
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(mark, io.SeekStart); err != nil {
		s.t.Fatal(err)
	}
	var out []attempt
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a attempt
		if json.Unmarshal(lines.Bytes(), &a) == nil && a.User.Username == "system:serviceaccount:"+namespace+":"+account && !slices.Contains([]string{"get", "list", "watch"}, a.Verb) {
			out = append(out, a)
		}
	}
	return out
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
