package running

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A restart of the controller on a settled cluster writes nothing.
func TestRestartWritesNothing(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	for _, pool := range []string{"pool-a", "pool-b"} {
		s.Pool(pool, "osp-a")
		s.Served(pool, "v1.0.0")
		s.Eventually("its documents", func() error { return s.Applied(pool) })
	}
	s.Stop()
	before := s.Versions()
	mark := s.AuditSize()
	s.Start()
	// A pool that is created now is processed after the existing ones.
	s.Pool("pool-c", "osp-a")
	s.Served("pool-c", "v1.0.0")
	s.Eventually("its documents", func() error { return s.Applied("pool-c") })
	// A write of the same bytes moves no version, but the API server's log has it.
	created := 0
	for _, w := range s.WritesSince(mark) {
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
		t.Errorf("the restart created %d objects, want 8: %q", created, s.WritesSince(mark))
	}
	s.Ready(s.Git.Push(map[string]string{"notes.txt": "unrelated"}))
	after := s.Versions()
	maps.DeleteFunc(after, func(name, _ string) bool { _, ok := before[name]; return !ok })
	delete(before, "*v1alpha1.ProfileSource osps") // its revision moved
	delete(after, "*v1alpha1.ProfileSource osps")
	if !maps.Equal(before, after) {
		t.Errorf("before the restart\n%v\nafter it\n%v", before, after)
	}
}

// Objects that a user deletes or edits are restored.
func TestSelfHealing(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	s.Pool("pool-a", "osp-a")
	bootstrap, provisioning := s.Served("pool-a", "v1.0.0")
	s.Eventually("its documents", func() error { return s.Applied("pool-a") })

	s.Run("a Secret is deleted", func(t *testing.T) {
		s.NoError(s.Client.Delete(t.Context(), bootstrap))
		s.Eventually("the Secret to be back", func() error {
			again, _, err := s.Secrets("pool-a")
			if err == nil && (again.UID == bootstrap.UID || !bytes.Equal(again.Data[api.UserDataKey], bootstrap.Data[api.UserDataKey])) {
				err = errors.New("is not as it was")
			}
			return err
		})
	})
	s.Run("a Secret is edited", func(t *testing.T) {
		edited := provisioning.DeepCopy()
		edited.Data[api.UserDataKey] = []byte("#cloud-config\n")
		s.NoError(s.Client.Update(t.Context(), edited))
		s.Eventually("the document to be back", func() error {
			_, again, err := s.Secrets("pool-a")
			if err == nil && !bytes.Equal(again.Data[api.UserDataKey], provisioning.Data[api.UserDataKey]) {
				err = errors.New("is not as it was")
			}
			return err
		})
	})
	s.Run("the kubelet's kubeconfig is deleted", func(t *testing.T) {
		name := s.Pools + "-pool-a-kubelet-bootstrap-config"
		var secret corev1.Secret
		s.NoError(s.Get(api.NamespaceCloudInitSettings, name, &secret))
		s.NoError(s.Client.Delete(t.Context(), secret.DeepCopy()))
		s.Eventually("the kubeconfig to be back", func() error {
			var again corev1.Secret
			if err := s.Get(api.NamespaceCloudInitSettings, name, &again); err != nil {
				return err
			}
			if !bytes.Equal(again.Data[api.KubeconfigKey], secret.Data[api.KubeconfigKey]) {
				return errors.New("is not as it was")
			}
			return nil
		})
	})
	s.Run("the configuration is deleted", func(t *testing.T) {
		var osc osm.OperatingSystemConfig
		s.NoError(s.Get(e2e.Namespace, "pool-a-"+s.Pools+"-config", &osc))
		s.NoError(s.Client.Delete(t.Context(), &osc))
		s.Eventually("the configuration to be back", func() error {
			return s.Applied("pool-a")
		})
	})
	s.Run("the profile's object is deleted", func(t *testing.T) {
		s.NoError(s.Client.Delete(t.Context(), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "osp-a-v1.0.0"}}))
		s.Eventually("the profile to be back", func() error { return s.Get(e2e.Namespace, "osp-a-v1.0.0", &osm.OperatingSystemProfile{}) })
	})
	s.Run("the cluster's endpoint moves", func(t *testing.T) {
		s.ClusterInfo("https://moved.example.com:6443", e2e.CaOf(t, s.Cluster))
		s.Eventually("the bootstrap document to name it", func() error {
			again, _, err := s.Secrets("pool-a")
			if err == nil && !bytes.Contains(again.Data[api.UserDataKey], []byte("https://moved.example.com:6443")) {
				err = errors.New("names the old one")
			}
			return err
		})
	})
}

// A new revision of machine-controller changes the annotation and nothing more; a reconcile
// request is answered; a suspended source is not reconciled.
func TestRequests(t *testing.T) {
	s := newSystem(t)
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source(func(spec map[string]any) { spec["interval"] = "1h" })
	s.Start()
	s.Ready(commit)
	s.Pool("pool-a", "osp-a")
	before, _ := s.Served("pool-a", "v1.0.0")

	s.Run("the revision follows", func(t *testing.T) {
		s.Pool("pool-a", "osp-a", e2e.Annotate(api.AnnotationMDRevision, "2"))
		s.Eventually("the revision on both Secrets", func() error {
			bootstrap, provisioning, err := s.Secrets("pool-a")
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
	s.Run("an annotation that changes nothing writes nothing", func(t *testing.T) {
		bootstrap, _, err := s.Secrets("pool-a")
		s.NoError(err)
		s.Pool("pool-a", "osp-a", e2e.Annotate(api.AnnotationMDRevision, "2"), e2e.Annotate("example.com/note", "hello"))
		s.Pool("marker", "osp-a") // is handled after it
		s.Served("marker", "v1.0.0")
		after, _, err := s.Secrets("pool-a")
		if err != nil || after.ResourceVersion != bootstrap.ResourceVersion {
			t.Errorf("the Secret was written (err %v)", err)
		}
	})
	s.Run("a reconcile request is answered", func(t *testing.T) {
		next := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
		s.PatchSource(fmt.Sprintf(`{"metadata":{"annotations":{%q:"now-1"}}}`, meta.ReconcileRequestAnnotation))
		s.Ready(next)
		if got := s.ProfileSource().Status.GetLastHandledReconcileRequest(); got != "now-1" {
			t.Errorf("lastHandledReconcileAt is %q", got)
		}
		s.Served("pool-a", "v1.1.0")
	})
	s.Run("a suspended source stands still", func(t *testing.T) {
		s.PatchSource(`{"spec":{"suspend":true}}`)
		requests := s.Git.Seen.Load()
		s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo three")})
		s.PatchSource(fmt.Sprintf(`{"metadata":{"annotations":{%q:"now-2"}}}`, meta.ReconcileRequestAnnotation))
		time.Sleep(time.Second) // a request would have come by now, as it did above
		if now := s.Git.Seen.Load(); now != requests {
			t.Errorf("the source was asked %d times", now-requests)
		}
		s.PatchSource(`{"spec":{"suspend":false}}`)
		s.Served("pool-a", "v1.2.0")
	})
}

// While the new profile cannot be rendered for a pool, its last-good generation is maintained
// from its record: documents get new tokens under the old revision.
func TestLastGoodGenerationIsMaintained(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Start("--node-http-proxy", "http://user:pr0xy-c4nary@proxy.example.com:3128")
	s.Ready(first)
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.0.0")

	// Nothing is wrong with the template as such: it reads what this pool lacks.
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo {{ .NetworkConfig.CIDR }}")})
	s.Event("pool-a", api.EventProfileError, `rendering profile "osp-a" v1.1.0`, "NetworkConfig")
	s.Eventually("the refusal on the configuration", func() error {
		return s.CheckRejectionNoted("pool-a", "v1.1.0", "NetworkConfig")
	})
	_, before := s.Served("pool-a", "v1.0.0")
	s.Pool("pool-a", "osp-a", e2e.Annotate(api.AnnotationMDRevision, "2"))
	for _, token := range s.Tokens() {
		s.NoError(s.Client.Delete(t.Context(), &token))
	}
	s.Eventually("the document to carry another token", func() error {
		_, now, err := s.Secrets("pool-a")
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
	if tokens := s.Tokens(); len(tokens) != 1 {
		t.Errorf("there are %d tokens", len(tokens))
	}
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.1", "echo two")})
	bootstrap, _ := s.Served("pool-a", "v1.1.1")
	if got := bootstrap.Annotations[api.AnnotationRevisionFor]; got != "2" {
		t.Errorf("revision is %q", got)
	}
	s.Eventually("the configuration to be good again", func() error {
		return s.Applied("pool-a")
	})
	var osc osm.OperatingSystemConfig
	s.NoError(s.Get(e2e.Namespace, "pool-a-"+s.Pools+"-config", &osc))
	if raw, _ := json.Marshal(osc); bytes.Contains(raw, []byte("c4nary")) {
		t.Error("the OperatingSystemConfig holds the proxy's password")
	}
}

// The controller is killed repeatedly while a push rotates its pools: they converge, with one
// token each, and no Secret is missing at any time.
func TestKilledDuringRotation(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	const pools, kills = 20, 5
	name := func(i int) string { return fmt.Sprintf("pool-%02d", i) }
	for i := range pools {
		s.Pool(name(i), "osp-a")
	}
	for i := range pools {
		s.Served(name(i), "v1.0.0")
	}
	seen := s.WatchUserData("pool")
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	for i := range kills {
		s.Kill()
		s.Start()
		time.Sleep(time.Duration(500+150*i) * time.Millisecond) // later in the rotation each time
	}
	for i := range pools {
		bootstrap, provisioning := s.Served(name(i), "v1.1.0")
		if bootstrap.Annotations[api.AnnotationInputDigest] != provisioning.Annotations[api.AnnotationInputDigest] {
			t.Errorf("%s: the documents are of two generations", name(i))
		}
	}
	if got := len(s.Tokens()); got != pools {
		t.Errorf("there are %d tokens for %d pools", got, pools)
	}
	seen.Stop()
	<-seen.Stopped
	for _, e := range seen.Events {
		if e.Type == watch.Deleted {
			t.Errorf("%s was deleted", e.Object.(*corev1.Secret).Name)
		}
	}
}
