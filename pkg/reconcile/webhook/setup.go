package webhook

import (
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

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient/runnables"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// Options configure the server of the webhooks and its certificates.
type Options struct {
	// Address is the listen address, "host:port"; without a host it means every address.
	Address string
	// ClientCAFile has the CA of permitted clients, in PEM. If empty, every client that can
	// connect is permitted: an API server presents a certificate only if configured to.
	ClientCAFile string
	// CertDir has tls.crt and tls.key, which another program renews. If empty, the
	// certificates are created and renewed here.
	CertDir string

	// Namespace of the Secret with the certificates.
	Namespace string
	// Service is the Service that the API server calls, and Hosts are other names or
	// addresses that it calls.
	Service types.NamespacedName
	Hosts   []string
	// Clock is used to check which certificates are due.
	Clock clock.Clock
	// Metrics export when the serving certificate expires; nil disables them.
	Metrics *metrics.Metrics
}

func (o Options) certificateNames() []string {
	service := o.Service.Name + "." + o.Service.Namespace + ".svc"
	return append([]string{service, service + ".cluster.local"}, o.Hosts...)
}

// Setup adds the webhooks' server and the maintenance of its certificates to a manager.
// The server answers on every replica; one of them publishes the CA to the API server.
// The returned certificates, nil with CertDir, can be published to another cluster that
// calls the webhooks.
func Setup(mgr ctrl.Manager, o Options, h Handlers) (*Certificates, error) {
	get, certificates, err := o.addCertificates(mgr)
	if err != nil {
		return nil, err
	}
	server, err := newServer(o, h, get)
	if err != nil {
		return nil, err
	}
	o.Metrics.RegisterWebhookCertificate(func() time.Time { return servingExpiry(get) })
	return certificates, mgr.Add(server)
}

// getCertificate is the function type of tls.Config.
type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// servingExpiry returns when the serving certificate expires; zero if there is none.
func servingExpiry(get getCertificate) time.Time {
	served, err := get(nil)
	if err != nil || served == nil || served.Leaf == nil {
		return time.Time{}
	}
	return served.Leaf.NotAfter
}

// addCertificates adds the maintenance of certificates, and returns the function that
// returns them.
func (o Options) addCertificates(mgr ctrl.Manager) (getCertificate, *Certificates, error) {
	if o.CertDir != "" {
		files, err := certwatcher.New(filepath.Join(o.CertDir, corev1.TLSCertKey), filepath.Join(o.CertDir, corev1.TLSPrivateKeyKey))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the webhooks' certificate: %w", err)
		}
		return files.GetCertificate, nil, mgr.Add(runnables.Everywhere(files.Start))
	}
	key := types.NamespacedName{Namespace: o.Namespace, Name: api.WebhookSecretName}
	secret, err := addCache(mgr, mgr, map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{key.Namespace: {FieldSelector: named(key.Name)}}},
	})
	if err != nil {
		return nil, nil, err
	}
	certificates := &Certificates{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: secret, Secret: key, Names: o.certificateNames(), Clock: o.Clock}
	if err := mgr.Add(certificates); err != nil {
		return nil, nil, err
	}
	return certificates.GetCertificate, certificates, certificates.PublishBundles(mgr, mgr)
}

// PublishBundles adds to a manager the publication of the CA to the API server of a cluster.
func (c *Certificates) PublishBundles(mgr ctrl.Manager, in crcluster.Cluster) error {
	byName := cache.ByObject{Field: named(api.WebhookConfigurationName)}
	configurations, err := addCache(mgr, in, map[client.Object]cache.ByObject{
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   byName,
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: byName,
	})
	if err != nil {
		return err
	}
	return mgr.Add(&Bundles{Client: in.GetClient(), Live: in.GetAPIReader(), Cache: configurations, Name: api.WebhookConfigurationName, Certificates: c})
}

func named(name string) fields.Selector {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name)
}

// addCache adds a cache for a few objects of a cluster by name, so that permission for these is
// enough. The manager does not wait for it.
func addCache(mgr ctrl.Manager, in crcluster.Cluster, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	c, err := runnables.AddCache(mgr, in, cache.Options{ByObject: objects})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch the objects of the webhooks: %w", err)
	}
	return c, nil
}
