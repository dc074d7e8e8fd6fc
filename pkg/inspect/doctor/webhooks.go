package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const checkWebhooks = "webhooks"

// osmService is the Service of the webhooks of operating-system-manager.
const osmService = "operating-system-manager-webhook"

// ourHooks is how the names of our webhooks end, also in the configurations of other names that
// deploy/kubeone has.
const ourHooks = ".gitops.k8c.io"

// soon is the remaining validity at which a certificate is reported. The controller renews
// its own at 30 days.
const soon = 14 * 24 * time.Hour

// hook is one webhook with the address that its configuration names.
type hook struct {
	of       string // the configuration: resource and name
	name     string
	config   admissionregistrationv1.WebhookClientConfig
	fails    bool // it rejects requests if it cannot be called
	injected bool // another controller writes its CA
}

// webhookChecks are the checks of webhooks and of their endpoints.
type webhookChecks struct{ *examination }

// examineWebhooks checks whether the API servers can call the controller and trust its
// certificate.
func (w webhookChecks) examineWebhooks(ctx context.Context) {
	before, found := len(w.Findings), 0
	byURL := false // as in user clusters of KKP, whose webhooks our image can answer
	for _, c := range w.clusters() {
		hooks, ok := w.listAdmissionWebhooks(ctx, c)
		if !ok {
			return
		}
		for _, h := range hooks {
			switch {
			case strings.HasSuffix(h.name, ourHooks):
				found++
				w.examineHook(ctx, c, h)
			case pointsToOSM(h.config):
				byURL = byURL || h.config.Service == nil
				w.examineOSMHook(ctx, c, h)
			}
		}
	}
	if found == 0 {
		if byURL {
			return
		}
		w.report(Note, checkWebhooks, nil, "no webhook of osm-gitops found: pools without a profile get none, and invalid requests cause no warning",
			"kubectl apply --server-side -f deploy/webhook.yaml, see docs/admission.md")
		return
	}
	w.examineServingCertificate(ctx)
	if len(w.Findings) == before {
		w.report(OK, checkWebhooks, nil, plural(found, "webhook has", "webhooks have")+" a valid certificate and a ready endpoint", "")
	}
}

// hasWebhookConfiguration reports whether a cluster has our webhooks.
func (w *examination) hasWebhookConfiguration(ctx context.Context, c *Cluster) bool {
	var m admissionregistrationv1.MutatingWebhookConfiguration
	return c.Client.Get(ctx, types.NamespacedName{Name: api.WebhookConfigurationName}, &m) == nil
}

// listAdmissionWebhooks returns the webhooks of a cluster; it reports an error and returns false.
func (w webhookChecks) listAdmissionWebhooks(ctx context.Context, c *Cluster) ([]hook, bool) {
	var hooks []hook
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	for _, list := range []client.ObjectList{&mutating, &validating} {
		if err := c.Client.List(ctx, list); err != nil {
			w.addUnreadable(checkWebhooks, c, "webhook configurations", err)
			return nil, false
		}
	}
	for i := range mutating.Items {
		of := &mutating.Items[i]
		for _, h := range of.Webhooks {
			hooks = append(hooks, newHook("mutatingwebhookconfiguration "+of.Name, h.Name, h.ClientConfig, h.FailurePolicy, of.Annotations))
		}
	}
	for i := range validating.Items {
		of := &validating.Items[i]
		for _, h := range of.Webhooks {
			hooks = append(hooks, newHook("validatingwebhookconfiguration "+of.Name, h.Name, h.ClientConfig, h.FailurePolicy, of.Annotations))
		}
	}
	return hooks, true
}

func newHook(of, name string, config admissionregistrationv1.WebhookClientConfig, policy *admissionregistrationv1.FailurePolicyType, annotations map[string]string) hook {
	_, a := annotations["cert-manager.io/inject-ca-from"]
	_, b := annotations["cert-manager.io/inject-ca-from-secret"]
	return hook{of, name, config, policy == nil || *policy == admissionregistrationv1.Fail, a || b}
}

// examineHook checks one webhook.
func (w webhookChecks) examineHook(ctx context.Context, c *Cluster, h hook) {
	f := Finding{Check: checkWebhooks, Level: Problem, Cluster: w.clusterLabel(c)}
	if f.Found, f.Remedy = w.diagnoseCABundle(h); f.Found == "" && h.config.Service != nil {
		f.Found, f.Remedy = w.diagnoseEndpoint(ctx, c, h)
	}
	if f.Found != "" {
		f.Found = fmt.Sprintf("webhook %s %s: %s", h.name, f.Found, failureEffect(h))
		w.addFinding(f)
	}
}

// failureEffect describes the effect of a webhook that cannot be called.
func failureEffect(h hook) string {
	if h.fails {
		return "every request that it should check is rejected"
	}
	return "it is skipped"
}

// diagnoseCABundle describes a problem with the CA of a webhook, and its remedy.
func (w webhookChecks) diagnoseCABundle(h hook) (found, do string) {
	if len(h.config.CABundle) == 0 {
		if h.injected {
			return "has no caBundle", "cert-manager writes it: check its Certificate, and the log of its cainjector"
		}
		return "has no caBundle", "the leading controller writes it if it has the permissions of deploy/webhook.yaml and a --webhook-address: see its log"
	}
	for _, cert := range parseCertificates(h.config.CABundle) {
		if w.apiServerTime().Before(cert.NotAfter) {
			return "", ""
		}
	}
	return "has a caBundle without a valid certificate", "see the controller's log: the leader renews it, unless --cert-dir is given"
}

// diagnoseEndpoint describes why a webhook has no ready endpoint, and the remedy.
func (w webhookChecks) diagnoseEndpoint(ctx context.Context, c *Cluster, h hook) (found, do string) {
	service := types.NamespacedName{Namespace: h.config.Service.Namespace, Name: h.config.Service.Name}
	err := c.Client.Get(ctx, service, &corev1.Service{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("calls Service %s, which does not exist", service), "kubectl apply --server-side -f deploy/webhook.yaml, with the namespace of the controller"
	case err != nil:
		w.addUnreadable(checkWebhooks, c, "Service "+service.String(), err)
		return "", ""
	}
	var slices discoveryv1.EndpointSliceList
	err = c.Client.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		w.addUnreadable(checkWebhooks, c, "the EndpointSlices of Service "+service.String(), err)
		return "", ""
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return "", ""
			}
		}
	}
	return fmt.Sprintf("calls Service %s, which has no ready endpoint", service), "check that the controller's Pods are ready and have the labels of the Service's selector"
}

// examineServingCertificate checks the expiry of the controller's serving certificate. It does not
// read the key in its Secret.
func (w webhookChecks) examineServingCertificate(ctx context.Context) {
	key := types.NamespacedName{Namespace: w.Namespace, Name: api.WebhookSecretName}
	var secret corev1.Secret
	err := w.Management.Client.Get(ctx, key, &secret)
	f := Finding{Check: checkWebhooks, Cluster: w.clusterLabel(w.Management), Remedy: "see the controller's log: each replica renews it when due"}
	if apierrors.IsNotFound(err) {
		f.Level, f.Found = Note, fmt.Sprintf("no Secret %s with the certificate of the webhooks found", key)
		f.Remedy = "with --cert-dir nothing; otherwise start the controller with --webhook-address"
		w.addFinding(f)
		return
	}
	if err != nil {
		w.addUnreadable(checkWebhooks, w.Management, "Secret "+key.String(), err)
		return
	}
	certs := parseCertificates(secret.Data[corev1.TLSCertKey])
	switch {
	case len(certs) == 0:
		f.Level = Problem
		f.Found = fmt.Sprintf("Secret %s contains no certificate", key)
		f.Remedy = "delete it: the controller creates another"
	case !w.apiServerTime().Before(certs[0].NotAfter):
		f.Level = Problem
		f.Found = fmt.Sprintf("the certificate of the webhooks, in Secret %s, expired at %s", key, formatNotAfter(certs[0]))
	case !w.apiServerTime().Add(soon).Before(certs[0].NotAfter):
		f.Level = Warning
		f.Found = fmt.Sprintf("the certificate of the webhooks, in Secret %s, expires at %s and is not renewed", key, formatNotAfter(certs[0]))
	default:
		return
	}
	w.addFinding(f)
}

func formatNotAfter(c *x509.Certificate) string { return c.NotAfter.UTC().Format(time.RFC3339) }

// examineOSMHook reports a webhook of operating-system-manager that has no endpoint. KubeOne and KKP
// install them under names that differ from its own manifests, so their target identifies them.
func (w webhookChecks) examineOSMHook(ctx context.Context, c *Cluster, h hook) {
	remedy := "after removing operating-system-manager: kubectl delete " + h.of
	if h.config.Service == nil {
		w.report(Note, checkWebhooks, c, fmt.Sprintf("webhook %s of operating-system-manager calls %s, which only the API server can reach: if nothing answers there, %s", h.name, *h.config.URL, failureEffect(h)),
			"KKP: leave it, since the image of osm-gitops answers; otherwise "+remedy)
		return
	}
	if found, _ := w.diagnoseEndpoint(ctx, c, h); found != "" {
		w.report(Problem, checkWebhooks, c, fmt.Sprintf("webhook %s of operating-system-manager %s: %s", h.name, found, failureEffect(h)), remedy)
	}
}

// pointsToOSM reports whether a webhook calls the Service of operating-system-manager,
// in this cluster or by URL.
func pointsToOSM(config admissionregistrationv1.WebhookClientConfig) bool {
	if config.Service != nil {
		return config.Service.Name == osmService
	}
	if config.URL == nil {
		return false
	}
	u, err := url.Parse(*config.URL)
	if err != nil {
		return false
	}
	service, _, _ := strings.Cut(u.Hostname(), ".")
	return service == osmService
}
