package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// namespace is where deploy/rbac.yaml gives the controller its rights.
const namespace = "kube-system"

// patience bounds every wait: reaching it is a failure, so it may be generous. After an
// API server was away for half a minute, a watch may wait for a minute before it asks again.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	code := cluster.Main(m, cluster.Options{Audit: true}, onlyWithRights)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// system is a control plane with our kinds and rights, a Git server, and the
// controller's process.
type system struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  client.WithWatch
	git     *gitServer
	pools   string // namespace for this test's MachineDeployments
	cache   string
	log     *bytes.Buffer
	logMu   sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
	// identity is the kubeconfig to start with, where the API server may be away then.
	identity string
}

// run runs a part of the test, whose failures are its own.
func (s *system) run(name string, part func(t *testing.T)) {
	s.t.Run(name, func(t *testing.T) {
		whole := s.t
		s.t, s.git.t = t, t
		defer func() { s.t, s.git.t = whole, whole }()
		part(t)
	})
}

// newSystem prepares everything but the controller; see start.
func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemOn(t, cluster.Shared(t))
}

// newSystemOn is newSystem for a control plane that a test has for itself.
func newSystemOn(t *testing.T, c *cluster.Cluster) *system {
	t.Helper()
	s := &system{t: t, cluster: c, client: c.Client(t), git: newGitServer(t), pools: c.Namespace(t), cache: t.TempDir(), log: &bytes.Buffer{}}
	if err := c.Apply(t.Context(), repoPath("deploy/cloud-init-settings.yaml"), repoPath("deploy/rbac.yaml"), repoPath("deploy/controller-policy.yaml")); err != nil {
		t.Fatal(err)
	}
	s.clusterInfo("https://api.example.com:6443", caOf(t, c))
	s.eventually("the getter's token", func() error {
		var secret corev1.Secret
		if err := s.get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &secret); err != nil {
			return err
		}
		if len(secret.Data["token"]) == 0 {
			return errors.New("is empty")
		}
		return nil
	})
	t.Cleanup(s.cleanUp)
	return s
}

// cleanUp removes what a test made, so that the next one starts on a clean cluster.
func (s *system) cleanUp() {
	if s.t.Failed() {
		s.logMu.Lock()
		s.t.Logf("the controller's log:\n%s", tail(s.log.String(), 12_000))
		s.logMu.Unlock()
	}
	s.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	var mds machines.MachineDeploymentList
	if err := s.client.List(ctx, &mds); err != nil {
		s.t.Error(err)
	}
	for i := range mds.Items {
		s.noError(client.IgnoreNotFound(s.client.Patch(ctx, &mds.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		s.noError(client.IgnoreNotFound(s.client.Delete(ctx, &mds.Items[i])))
	}
	var sources api.ProfileSourceList
	s.noError(s.client.List(ctx, &sources))
	for i := range sources.Items {
		s.noError(client.IgnoreNotFound(s.client.Patch(ctx, &sources.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	}
	for _, obj := range []client.Object{&api.ProfileSource{}, &osm.OperatingSystemProfile{}, &osm.OperatingSystemConfig{}} {
		s.noError(s.client.DeleteAllOf(ctx, obj, client.InNamespace(namespace)))
	}
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		s.noError(s.client.DeleteAllOf(ctx, obj, client.InNamespace(api.NamespaceCloudInitSettings), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}))
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: mainLease}}
	s.noError(client.IgnoreNotFound(s.client.Delete(ctx, lease))) // somebody else may hold it
	for _, ns := range []string{namespace, api.NamespaceCloudInitSettings} {
		var secrets corev1.SecretList
		s.noError(s.client.List(ctx, &secrets, client.InNamespace(ns)))
		for i := range secrets.Items {
			if secrets.Items[i].Name != api.SecretGetterToken {
				s.noError(client.IgnoreNotFound(s.client.Delete(ctx, &secrets.Items[i])))
			}
		}
	}
}

func (s *system) noError(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// clusterInfo says where nodes find the API server.
func (s *system) clusterInfo(server, ca string) {
	s.t.Helper()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {Server: server, CertificateAuthorityData: []byte(ca)}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.apply(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "cluster-info", "namespace": "kube-public"},
		"data": map[string]any{"kubeconfig": string(text)},
	})
}

func (s *system) apply(object map[string]any) {
	s.t.Helper()
	if err := s.cluster.ApplyObjects(s.t.Context(), &unstructured.Unstructured{Object: object}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) applyYAML(text string) {
	s.t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		s.t.Fatal(err)
	}
	s.apply(object)
}

func (s *system) get(namespace, name string, obj client.Object) error {
	return s.client.Get(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj)
}

// eventually waits until check finds nothing wrong.
func (s *system) eventually(what string, check func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("waiting for %s: %v", what, err)
		}
		select {
		case <-s.exitedOrNever():
			s.t.Fatalf("waiting for %s: the controller ended", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// source applies the ProfileSource "osps" for the test's repository.
func (s *system) source(more ...func(spec map[string]any)) {
	s.t.Helper()
	spec := map[string]any{
		"git":      map[string]any{"url": s.git.url, "timeout": "5s"},
		"path":     "profiles",
		"interval": "1s", "retryInterval": "1s",
	}
	for _, f := range more {
		f(spec)
	}
	s.apply(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "osps", "namespace": namespace}, "spec": spec,
	})
}

func (s *system) profileSource() *api.ProfileSource {
	s.t.Helper()
	var ps api.ProfileSource
	if err := s.get(namespace, "osps", &ps); err != nil {
		s.t.Fatal(err)
	}
	return &ps
}

// ready waits until the source has applied a commit.
func (s *system) ready(commit string) {
	s.t.Helper()
	s.eventually("ProfileSource to apply "+commit, func() error {
		ps := s.profileSource()
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, "Ready"); c == nil || c.Status != metav1.ConditionTrue || !strings.HasSuffix(ps.Status.Revision, commit) {
			return fmt.Errorf("status is %+v", ps.Status)
		}
		return nil
	})
}

// refused waits until the Ready condition is False with a reason and says all of
// the given texts. It returns the condition.
func (s *system) refused(reason string, says ...string) metav1.Condition {
	s.t.Helper()
	var found metav1.Condition
	s.eventually("ProfileSource to be refused as "+reason, func() error {
		ps := s.profileSource()
		c := apimeta.FindStatusCondition(ps.Status.Conditions, "Ready")
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Errorf("condition is %+v", c)
		}
		for _, text := range says {
			if !strings.Contains(c.Message, text) {
				return fmt.Errorf("message\n%s\ndoes not say\n%s", c.Message, text)
			}
		}
		found = *c
		return nil
	})
	return found
}

// inventory returns the current versions by profile.
func (s *system) inventory() map[string]string {
	out := map[string]string{}
	for _, e := range s.profileSource().Status.Profiles {
		out[e.Name] = e.Version
		if e.Removed {
			out[e.Name] += " removed"
		}
	}
	return out
}

// event waits for an event on a MachineDeployment.
func (s *system) event(pool, reason string, says ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("event %s on %s saying %q", reason, pool, says), func() error {
		notes := s.notes(pool, reason)
		for _, note := range notes {
			if containsAll(note, says) {
				return nil
			}
		}
		return fmt.Errorf("events are %q", notes)
	})
}

// notes are the events on the source or on a pool of this test.
func (s *system) notes(name, reason string) []string {
	s.t.Helper()
	return append(s.notesIn(s.pools, name, reason), s.notesIn(namespace, name, reason)...)
}

func containsAll(s string, texts []string) bool {
	for _, t := range texts {
		if !strings.Contains(s, t) {
			return false
		}
	}
	return true
}

// userData are the two documents of a pool, nil while one is missing.
func (s *system) secrets(pool string) (bootstrap, provisioning *corev1.Secret, err error) {
	bootstrap, provisioning = &corev1.Secret{}, &corev1.Secret{}
	if err := s.get(api.NamespaceCloudInitSettings, pool+"-"+s.pools+"-bootstrap-config", bootstrap); err != nil {
		return nil, nil, err
	}
	if err := s.get(api.NamespaceCloudInitSettings, pool+"-"+s.pools+"-provisioning-config", provisioning); err != nil {
		return nil, nil, err
	}
	return bootstrap, provisioning, nil
}

// served waits until both of a pool's Secrets carry a version of its profile.
func (s *system) served(pool, version string) (bootstrap, provisioning *corev1.Secret) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("pool %s to be served %s", pool, version), func() (err error) {
		if bootstrap, provisioning, err = s.secrets(pool); err != nil {
			return err
		}
		for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
			if got := secret.Annotations[api.AnnotationOSPVersion]; got != version {
				return fmt.Errorf("%s carries %q", secret.Name, got)
			}
		}
		return nil
	})
	return bootstrap, provisioning
}

// gone waits until an object is deleted.
func (s *system) gone(namespace, name string, obj client.Object) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%T %s to be gone", obj, name), func() error {
		err := s.get(namespace, name, obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is there")
		}
		return err
	})
}

// pool applies a MachineDeployment for a profile.
func (s *system) pool(name, profile string, more ...func(md map[string]any)) {
	s.t.Helper()
	md := map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
		"metadata": map[string]any{
			"name": name, "namespace": s.pools,
			"annotations": map[string]any{api.AnnotationOSP: profile, api.AnnotationMDRevision: "1"},
		},
		"spec": map[string]any{
			"replicas": 1, "selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"pool": name}},
				"spec": map[string]any{
					"providerSpec": map[string]any{"value": map[string]any{
						"cloudProvider": "hetzner", "cloudProviderSpec": map[string]any{},
						"operatingSystem": "ubuntu", "operatingSystemSpec": map[string]any{"distUpgradeOnBoot": false},
						"sshPublicKeys": []any{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada@example.com"},
					}},
					"versions": map[string]any{"kubelet": "1.35.0"},
				},
			},
		},
	}
	for _, f := range more {
		f(md)
	}
	s.apply(md)
}

func annotate(key, value string) func(map[string]any) {
	return func(md map[string]any) {
		md["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = value
	}
}

func (s *system) machineDeployment(name string) *machines.MachineDeployment {
	s.t.Helper()
	var md machines.MachineDeployment
	if err := s.get(s.pools, name, &md); err != nil {
		s.t.Fatal(err)
	}
	return &md
}

func repoPath(path string) string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(self), "..", "..", path)
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// begin applies the source, starts the controller and waits for a commit, and for
// the built-in profiles.
func (s *system) begin(commit string) {
	s.t.Helper()
	s.source()
	s.start()
	s.ready(commit)
	s.builtin("osp-ubuntu")
}

func (s *system) notesIn(ns, name, reason string) []string {
	s.t.Helper()
	var list eventsv1.EventList
	if err := s.client.List(s.t.Context(), &list, client.InNamespace(ns)); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason {
			out = append(out, e.Note)
		}
	}
	return out
}
