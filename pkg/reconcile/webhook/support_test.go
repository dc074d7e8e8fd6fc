package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

const system = "kube-system" // where deploy/rbac.yaml lets the controller write

// site is a real API server that calls the webhooks at their addresses here.
type site struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  client.Client
	pools   string // namespace for MachineDeployments
	clock   clock.Clock
	// wrap sees the requests of replicas; nil for none.
	wrap func(http.RoundTripper) http.RoundTripper

	mu       sync.Mutex
	warnings []string // that the API server passed on
}

func newSite(t *testing.T) *site {
	t.Helper()
	c := cluster.Shared(t)
	do(t, c.Apply(t.Context(), filepath.Join(root, "deploy/cloud-init-settings.yaml"), filepath.Join(root, "deploy/rbac.yaml")))
	do(t, c.ApplyObjects(t.Context(), webhookManifests(t, "ClusterRole", "ClusterRoleBinding")...))
	s := &site{t: t, cluster: c, pools: c.Namespace(t), clock: clock.RealClock{}}
	config := rest.CopyConfig(c.Config)
	config.WarningHandlerWithContext = s
	scheme, err := cluster.Scheme()
	do(t, err)
	s.client, err = client.New(config, client.Options{Scheme: scheme})
	do(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, obj := range []client.Object{s.mutating(), s.validating(), s.secret()} {
			do(t, client.IgnoreNotFound(s.client.Delete(ctx, obj)))
		}
	})
	return s
}

// HandleWarningHeaderWithContext collects warnings.
func (s *site) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, text)
}

// warned returns the warnings since the last call.
func (s *site) warned() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.warnings = nil }()
	return strings.Join(s.warnings, "\n")
}

// configure installs the configurations of deploy/webhook.yaml, which lead to an
// address here instead of the Service.
func (s *site) configure(address string) {
	s.t.Helper()
	objects := webhookManifests(s.t, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	for _, o := range objects {
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		do(s.t, err)
		for _, h := range hooks {
			to := h.(map[string]any)["clientConfig"].(map[string]any)
			path := to["service"].(map[string]any)["path"].(string)
			delete(to, "service")
			to["url"] = "https://" + address + path
		}
		do(s.t, unstructured.SetNestedSlice(o.Object, hooks, "webhooks"))
	}
	do(s.t, s.cluster.ApplyObjects(s.t.Context(), objects...))
}

// webhookManifests are the objects of some kinds in deploy/webhook.yaml.
func webhookManifests(t *testing.T, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "deploy/webhook.yaml"))
	do(t, err)
	defer f.Close()
	var out []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); err != nil {
			break
		}
		for _, kind := range kinds {
			if o.GetKind() == kind {
				out = append(out, o)
			}
		}
	}
	if len(out) != len(kinds) {
		t.Fatalf("deploy/webhook.yaml has %d objects of the kinds %q", len(out), kinds)
	}
	return out
}

// replica is the controller's part that is about admission, with the controller's
// own rights.
type replica struct {
	address string
	stop    func()
	// manager runs, and certificates are maintained by it.
	manager      ctrl.Manager
	certificates *Certificates
}

func (s *site) start(edits ...func(o *Options, h *Handlers)) *replica {
	s.t.Helper()
	r := &replica{address: freeAddress(s.t)}
	cfg := rest.CopyConfig(s.cluster.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:osm-gitops", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	if s.wrap != nil {
		cfg.Wrap(s.wrap)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: s.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	do(s.t, err)
	o := Options{
		Address: r.address, Namespace: system, Clock: s.clock, Hosts: []string{"127.0.0.1"},
		Service: types.NamespacedName{Namespace: system, Name: api.WebhookServiceName},
	}
	here := kubeclient.Cluster{Client: s.client, Live: s.client}
	h := Handlers{Checker: render.NewEngine(), Pools: &pools.Reconciler{Management: here, Worker: here, Namespace: system}}
	for _, edit := range edits {
		edit(&o, &h)
	}
	r.manager = mgr
	r.certificates, err = Setup(mgr, o, h)
	do(s.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(r.stop)
	return r
}

// ready waits until the CA is published to the API server.
func (s *site) ready() {
	s.t.Helper()
	eventually(s.t, "caBundle in every webhook", func() error {
		for _, bundle := range s.bundles() {
			if len(bundle) == 0 {
				return errors.New("there is none")
			}
		}
		return nil
	})
}

func (s *site) mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	out := &admissionregistrationv1.MutatingWebhookConfiguration{}
	out.Name = api.WebhookConfigurationName
	return out
}

func (s *site) validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	out := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	out.Name = api.WebhookConfigurationName
	return out
}

// bundles are the caBundles of all three webhooks.
func (s *site) bundles() [][]byte {
	s.t.Helper()
	m, v := s.mutating(), s.validating()
	s.get(m)
	s.get(v)
	var out [][]byte
	for _, w := range m.Webhooks {
		out = append(out, w.ClientConfig.CABundle)
	}
	for _, w := range v.Webhooks {
		out = append(out, w.ClientConfig.CABundle)
	}
	if len(out) != 3 {
		s.t.Fatalf("found %d webhooks", len(out))
	}
	return out
}

func (s *site) get(obj client.Object) {
	s.t.Helper()
	do(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj))
}

// pool is a MachineDeployment of a user, with fields that our types do not know.
func (s *site) pool(name, providerSpec string, annotations map[string]any) *unstructured.Unstructured {
	s.t.Helper()
	text := fmt.Sprintf(`{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"MachineDeployment","metadata":{"namespace":%q,"name":%q},
		"spec":{"replicas":3,"minReadySeconds":5,"ofTomorrow":{"a":[1,2.5,null,"x"]},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}],"ofTomorrow":true,
				"versions":{"kubelet":"1.36.2","controlPlane":"1.36.2"},"providerSpec":{"value":%s}}}},
		"ofTomorrow":"x"}`, s.pools, name, providerSpec)
	md := &unstructured.Unstructured{}
	do(s.t, md.UnmarshalJSON([]byte(text)))
	if annotations != nil {
		do(s.t, unstructured.SetNestedMap(md.Object, annotations, "metadata", "annotations"))
	}
	return md
}

func rootsOf(t *testing.T, bundle []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("no certificates in a bundle")
	}
	return pool
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	do(t, err)
	defer l.Close()
	return l.Addr().String()
}

// secret is the one with the certificates.
func (s *site) secret() *corev1.Secret {
	out := &corev1.Secret{}
	out.Namespace, out.Name = system, api.WebhookSecretName
	return out
}
