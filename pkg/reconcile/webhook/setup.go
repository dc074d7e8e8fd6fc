package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// Options say how and with which certificates the webhooks are served.
type Options struct {
	// Address to listen at, "host:port"; without a host on every address.
	Address string
	// ClientCAFile holds the CA of whoever may call, in PEM. Empty: whoever reaches the
	// address may, for an API server presents a certificate only if it is told to.
	ClientCAFile string
	// CertDir holds tls.crt and tls.key, which somebody else renews. Empty: the
	// certificates are made and renewed here.
	CertDir string

	// Namespace of the Secret with the certificates.
	Namespace string
	// Service by which the API server calls, and Hosts by which it does so beside it,
	// names or addresses.
	Service types.NamespacedName
	Hosts   []string
	// Clock tells which certificates are due.
	Clock clock.Clock
	// Metrics tell when the certificate ends that is served; nil is nobody.
	Metrics *metrics.Metrics
}

// names are those that the certificate has.
func (o Options) names() []string {
	service := o.Service.Name + "." + o.Service.Namespace + ".svc"
	return append([]string{service, service + ".cluster.local"}, o.Hosts...)
}

// Setup adds to a manager the webhooks' server and what keeps its certificates. The
// server answers on every replica; one of them tells the API server the CA. The
// certificates, nil with CertDir, can be told to another cluster that calls as well.
func Setup(mgr ctrl.Manager, o Options, h Handlers) (*Certificates, error) {
	get, certificates, err := o.certificates(mgr)
	if err != nil {
		return nil, err
	}
	server, err := newServer(o, h, get)
	if err != nil {
		return nil, err
	}
	o.Metrics.WebhookCertificate(func() time.Time { return endOf(get) })
	return certificates, mgr.Add(server)
}

// getCertificate is a tls.Config's.
type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// endOf is when the certificate ends that is served; zero where there is none.
func endOf(get getCertificate) time.Time {
	served, err := get(nil)
	if err != nil || served == nil || served.Leaf == nil {
		return time.Time{}
	}
	return served.Leaf.NotAfter
}

// certificates adds what keeps certificates, and returns where to get them.
func (o Options) certificates(mgr ctrl.Manager) (getCertificate, *Certificates, error) {
	if o.CertDir != "" {
		files, err := certwatcher.New(filepath.Join(o.CertDir, corev1.TLSCertKey), filepath.Join(o.CertDir, corev1.TLSPrivateKeyKey))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the webhooks' certificate: %w", err)
		}
		return files.GetCertificate, nil, mgr.Add(everywhere(files.Start))
	}
	key := types.NamespacedName{Namespace: o.Namespace, Name: api.WebhookSecretName}
	secret, err := cacheOf(mgr, mgr, map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{key.Namespace: {FieldSelector: named(key.Name)}}},
	})
	if err != nil {
		return nil, nil, err
	}
	certificates := &Certificates{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: secret, Secret: key, Names: o.names(), Clock: o.Clock}
	if err := mgr.Add(certificates); err != nil {
		return nil, nil, err
	}
	return certificates.GetCertificate, certificates, certificates.Tell(mgr, mgr)
}

// Tell adds to a manager what tells the API server of a cluster whom to trust.
func (c *Certificates) Tell(mgr ctrl.Manager, in crcluster.Cluster) error {
	byName := cache.ByObject{Field: named(api.WebhookConfigurationName)}
	configurations, err := cacheOf(mgr, in, map[client.Object]cache.ByObject{
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   byName,
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: byName,
	})
	if err != nil {
		return err
	}
	return mgr.Add(&Bundles{Client: in.GetClient(), Live: in.GetAPIReader(), Cache: configurations, Name: api.WebhookConfigurationName, Certificates: c})
}

// everywhere runs on every replica.
type everywhere func(context.Context) error

func (everywhere) NeedLeaderElection() bool          { return false }
func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

var _ manager.LeaderElectionRunnable = everywhere(nil)

func named(name string) fields.Selector {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name)
}

// cacheOf watches a few objects of a cluster by name, so that a right to these is
// enough. The manager starts it, and does not wait for it.
func cacheOf(mgr ctrl.Manager, in crcluster.Cluster, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	c, err := cache.New(in.GetConfig(), cache.Options{Scheme: in.GetScheme(), Mapper: in.GetRESTMapper(), HTTPClient: in.GetHTTPClient(), ByObject: objects})
	if err == nil {
		err = mgr.Add(c)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing to watch what the webhooks need: %w", err)
	}
	return c, nil
}
