package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/osm-gitops/osm-gitops/test/program"
)

// Namespace is where deploy/rbac.yaml gives the controller its rights.
const Namespace = "kube-system"

// Patience bounds every wait. A test that reaches it fails, so it is generous: after an API
// server did not answer for half a minute, a watch can wait a minute before its next request.
const Patience = 2 * time.Minute

// Main runs the tests of a package, for TestMain.
func Main(m *testing.M) int {
	code := cluster.Main(m, cluster.Options{Audit: true}, onlyWithRights)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	return code
}

// System is a control plane with our kinds and rights, a Git server, and the
// controller's process.
type System struct {
	T       *testing.T
	Cluster *cluster.Cluster
	Client  client.WithWatch
	Git     *GitServer
	Pools   string // namespace for this test's MachineDeployments
	Cache   string
	Log     *bytes.Buffer
	LogMu   sync.Mutex
	Process *exec.Cmd
	Exited  chan struct{}
	// Identity is the kubeconfig to start with, for API servers that can be unreachable at the start.
	Identity string
	// Link leads controllers to the API server, nil if they connect to it directly.
	Link *Link
}

// Run runs a part of the test, whose failures are its own.
func (s *System) Run(name string, part func(t *testing.T)) {
	s.T.Run(name, func(t *testing.T) {
		whole := s.T
		s.T, s.Git.t = t, t
		defer func() { s.T, s.Git.t = whole, whole }()
		part(t)
	})
}

// NewSystem prepares everything but the controller; see start.
func NewSystem(t *testing.T) *System {
	t.Helper()
	return NewSystemOn(t, cluster.Shared(t))
}

// NewSystemOn is newSystem for a control plane that a test has for itself.
func NewSystemOn(t *testing.T, c *cluster.Cluster) *System {
	t.Helper()
	s := &System{T: t, Cluster: c, Client: c.Client(t), Git: NewGitServer(t), Pools: c.Namespace(t), Cache: t.TempDir(), Log: &bytes.Buffer{}}
	if err := c.Apply(t.Context(), RepoPath("deploy/cloud-init-settings.yaml"), RepoPath("deploy/rbac.yaml"), RepoPath("deploy/controller-policy.yaml")); err != nil {
		t.Fatal(err)
	}
	s.ClusterInfo("https://api.example.com:6443", CaOf(t, c))
	s.Eventually("the getter's token", func() error {
		var secret corev1.Secret
		if err := s.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &secret); err != nil {
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
func (s *System) cleanUp() {
	if s.T.Failed() {
		s.LogMu.Lock()
		s.T.Logf("the controller's log:\n%s", Tail(s.Log.String(), 12_000))
		s.LogMu.Unlock()
	}
	s.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.T.Context()), Patience)
	defer cancel()
	var mds machines.MachineDeploymentList
	if err := s.Client.List(ctx, &mds); err != nil {
		s.T.Error(err)
	}
	for i := range mds.Items {
		s.NoError(client.IgnoreNotFound(s.Client.Patch(ctx, &mds.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, &mds.Items[i])))
	}
	var sources api.ProfileSourceList
	s.NoError(s.Client.List(ctx, &sources))
	for i := range sources.Items {
		s.NoError(client.IgnoreNotFound(s.Client.Patch(ctx, &sources.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	}
	for _, obj := range []client.Object{&api.ProfileSource{}, &osm.OperatingSystemProfile{}, &osm.OperatingSystemConfig{}} {
		s.NoError(s.Client.DeleteAllOf(ctx, obj, client.InNamespace(Namespace)))
	}
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		s.NoError(s.Client.DeleteAllOf(ctx, obj, client.InNamespace(api.NamespaceCloudInitSettings), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}))
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: MainLease}}
	s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, lease))) // another process can hold it
	for _, ns := range []string{Namespace, api.NamespaceCloudInitSettings} {
		var secrets corev1.SecretList
		s.NoError(s.Client.List(ctx, &secrets, client.InNamespace(ns)))
		for i := range secrets.Items {
			if secrets.Items[i].Name != api.SecretGetterToken {
				s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, &secrets.Items[i])))
			}
		}
	}
}

func (s *System) NoError(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Error(err)
	}
}

// ClusterInfo says where nodes find the API server.
func (s *System) ClusterInfo(server, ca string) {
	s.T.Helper()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {Server: server, CertificateAuthorityData: []byte(ca)}},
	})
	if err != nil {
		s.T.Fatal(err)
	}
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "cluster-info", "namespace": "kube-public"},
		"data": map[string]any{"kubeconfig": string(text)},
	})
}

func (s *System) Apply(object map[string]any) {
	s.T.Helper()
	if err := s.Cluster.ApplyObjects(s.T.Context(), &unstructured.Unstructured{Object: object}); err != nil {
		s.T.Fatal(err)
	}
}

func (s *System) ApplyYAML(text string) {
	s.T.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		s.T.Fatal(err)
	}
	s.Apply(object)
}

func (s *System) Get(namespace, name string, obj client.Object) error {
	return s.Client.Get(s.T.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj)
}

// Eventually waits until check finds nothing wrong. It looks less often the longer it waits,
// because each check takes CPU of the API server.
func (s *System) Eventually(what string, check func() error) {
	s.T.Helper()
	deadline := time.Now().Add(Patience)
	for pause := 25 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.T.Fatalf("waiting for %s: %v", what, err)
		}
		select {
		case <-s.exitedOrNever():
			s.T.Fatalf("waiting for %s: the controller ended", what)
		case <-time.After(pause):
		}
	}
}

// Source applies the ProfileSource "osps" for the test's repository.
func (s *System) Source(more ...func(spec map[string]any)) {
	s.T.Helper()
	spec := map[string]any{
		"git":      map[string]any{"url": s.Git.URL, "timeout": "30s"},
		"path":     "profiles",
		"interval": "1s", "retryInterval": "1s",
	}
	for _, f := range more {
		f(spec)
	}
	s.Apply(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "osps", "namespace": Namespace}, "spec": spec,
	})
}

func (s *System) ProfileSource() *api.ProfileSource {
	s.T.Helper()
	var ps api.ProfileSource
	if err := s.Get(Namespace, "osps", &ps); err != nil {
		s.T.Fatal(err)
	}
	return &ps
}

// Ready waits until the source has applied a commit.
func (s *System) Ready(commit string) {
	s.T.Helper()
	s.Eventually("ProfileSource to apply "+commit, func() error {
		ps := s.ProfileSource()
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, "Ready"); c == nil || c.Status != metav1.ConditionTrue || !strings.HasSuffix(ps.Status.Revision, commit) {
			return fmt.Errorf("status is %+v", ps.Status)
		}
		return nil
	})
}

// WaitRejected waits until the Ready condition is False with a reason and says all of
// the given texts. It returns the condition.
func (s *System) WaitRejected(reason string, says ...string) metav1.Condition {
	s.T.Helper()
	var found metav1.Condition
	s.Eventually("ProfileSource to be refused as "+reason, func() error {
		ps := s.ProfileSource()
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

// Inventory returns the current versions by profile.
func (s *System) Inventory() map[string]string {
	out := map[string]string{}
	for _, e := range s.ProfileSource().Status.Profiles {
		out[e.Name] = e.Version
		if e.Removed {
			out[e.Name] += " removed"
		}
	}
	return out
}

// Event waits for an event on a MachineDeployment.
func (s *System) Event(pool, reason string, says ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("event %s on %s saying %q", reason, pool, says), func() error {
		notes := s.Events(pool, reason)
		for _, note := range notes {
			if ContainsAll(note, says) {
				return nil
			}
		}
		return fmt.Errorf("events are %q", notes)
	})
}

// Events are the events on the source or on a pool of this test.
func (s *System) Events(name, reason string) []string {
	s.T.Helper()
	return append(s.EventsIn(s.Pools, name, reason), s.EventsIn(Namespace, name, reason)...)
}

func ContainsAll(s string, texts []string) bool {
	for _, t := range texts {
		if !strings.Contains(s, t) {
			return false
		}
	}
	return true
}

// userData are the two documents of a pool, nil while one is missing.
func (s *System) Secrets(pool string) (bootstrap, provisioning *corev1.Secret, err error) {
	bootstrap, provisioning = &corev1.Secret{}, &corev1.Secret{}
	if err := s.Get(api.NamespaceCloudInitSettings, pool+"-"+s.Pools+"-bootstrap-config", bootstrap); err != nil {
		return nil, nil, err
	}
	if err := s.Get(api.NamespaceCloudInitSettings, pool+"-"+s.Pools+"-provisioning-config", provisioning); err != nil {
		return nil, nil, err
	}
	return bootstrap, provisioning, nil
}

// Served waits until both of a pool's Secrets carry a version of its profile.
func (s *System) Served(pool, version string) (bootstrap, provisioning *corev1.Secret) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("pool %s to be served %s", pool, version), func() (err error) {
		if bootstrap, provisioning, err = s.Secrets(pool); err != nil {
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

// Gone waits until an object is deleted.
func (s *System) Gone(namespace, name string, obj client.Object) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("%T %s to be gone", obj, name), func() error {
		err := s.Get(namespace, name, obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it exists")
		}
		return err
	})
}

// Pool applies a MachineDeployment for a profile.
func (s *System) Pool(name, profile string, more ...func(md map[string]any)) {
	s.T.Helper()
	md := map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
		"metadata": map[string]any{
			"name": name, "namespace": s.Pools,
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
	s.Apply(md)
}

func Annotate(key, value string) func(map[string]any) {
	return func(md map[string]any) {
		md["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = value
	}
}

func (s *System) MachineDeployment(name string) *machines.MachineDeployment {
	s.T.Helper()
	var md machines.MachineDeployment
	if err := s.Get(s.Pools, name, &md); err != nil {
		s.T.Fatal(err)
	}
	return &md
}

func RepoPath(path string) string {
	root, err := program.Root()
	if err != nil {
		panic(err) // a test runs in the folder of its package
	}
	return filepath.Join(root, path)
}

func Tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Begin applies the source, starts the controller and waits for a commit, and for
// the built-in profiles.
func (s *System) Begin(commit string) {
	s.T.Helper()
	s.Source()
	s.Start()
	s.Ready(commit)
	s.Builtin("osp-ubuntu")
}

func (s *System) EventsIn(ns, name, reason string) []string {
	s.T.Helper()
	var list eventsv1.EventList
	if err := s.Client.List(s.T.Context(), &list, client.InNamespace(ns)); err != nil {
		s.T.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason {
			out = append(out, e.Note)
		}
	}
	return out
}

// Builtin waits until a built-in profile is offered.
func (s *System) Builtin(name string) api.ProfileEntry {
	s.T.Helper()
	var found api.ProfileEntry
	s.Eventually("built-in profile "+name, func() error {
		var ps api.ProfileSource
		if err := s.Get(Namespace, api.DefaultsName, &ps); err != nil {
			return err
		}
		i := slices.IndexFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == name })
		if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, "Ready") || i < 0 {
			return fmt.Errorf("status is %+v", ps.Status)
		}
		found = ps.Status.Profiles[i]
		return nil
	})
	return found
}

// RefersTo has the cloudProviderSpec of a pool refer to a Secret of kube-system.
func RefersTo(secret string) func(md map[string]any) {
	return func(md map[string]any) {
		Value(md)["cloudProvider"] = "aws"
		Value(md)["cloudProviderSpec"] = map[string]any{"vpcId": map[string]any{"secretKeyRef": map[string]any{"namespace": "kube-system", "name": secret, "key": "key"}}}
		md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["versions"] = map[string]any{"kubelet": "1.28.9"}
	}
}

// Set sets an annotation of a pool; "" removes it.
func (s *System) Set(pool, key, value string) {
	s.T.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text)))
	if err := s.Client.Patch(s.T.Context(), s.MachineDeployment(pool), patch); err != nil {
		s.T.Fatal(err)
	}
}

// Status patches the status of an object, as machine-controller does.
func (s *System) Status(obj client.Object, name, status string) {
	s.T.Helper()
	obj.SetNamespace(s.Pools)
	obj.SetName(name)
	if err := s.Client.Status().Patch(s.T.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))); err != nil {
		s.T.Fatal(err)
	}
}

func Value(md map[string]any) map[string]any {
	spec := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	return spec["providerSpec"].(map[string]any)["value"].(map[string]any)
}
