package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
)

// admissionFlags are about the admission webhooks.
type admissionFlags struct {
	address, certDir, clientCAFile string
	serviceName, hostList          string
	denyUnknown                    bool

	// What validate makes of them.
	service types.NamespacedName // empty: the usual one in the controller's namespace
	hosts   []string
}

func (a *admissionFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&a.address, "webhook-address", ":9443", "address at which the API server is answered, with TLS; empty or 0: nowhere")
	fs.StringVar(&a.certDir, "cert-dir", "", "folder with tls.crt and tls.key for --webhook-address, read again when they change, as cert-manager mounts them; empty: the controller makes and renews certificates itself")
	fs.StringVar(&a.clientCAFile, "webhook-client-ca-file", "", "PEM file with the CA of the certificate that the API server shows; empty: whoever reaches --webhook-address is answered")
	fs.StringVar(&a.serviceName, "webhook-service", "", "namespace/name of the Service by which the API server calls; empty: "+api.WebhookServiceName+" in --namespace")
	fs.StringVar(&a.hostList, "webhook-hosts", "", "comma list of names and IPs by which API servers call beside the Service, for webhook configurations with a url")
	fs.BoolVar(&a.denyUnknown, "admission-deny-unknown-profiles", false, "refuse MachineDeployments whose profile does not exist or does not suit them, instead of a warning")
}

// off reports that no webhook is served.
func (a *admissionFlags) off() bool { return a.address == "" || a.address == "0" }

func (a *admissionFlags) validate(f *controllerFlags, bad func(flag, format string, args ...any)) {
	var err error
	if a.service, err = namespacedName(a.serviceName); err != nil {
		bad("webhook-service", "%w", err)
	}
	if a.hosts, err = parseNames(a.hostList); err != nil {
		bad("webhook-hosts", "%w", err)
	}
	if a.off() {
		for flag, set := range map[string]bool{"cert-dir": a.certDir != "", "webhook-client-ca-file": a.clientCAFile != "", "admission-deny-unknown-profiles": a.denyUnknown} {
			if set {
				bad(flag, "is of no use without --webhook-address")
			}
		}
		return
	}
	_, port, err := webhook.SplitAddress(a.address)
	if err != nil {
		bad("webhook-address", "%w", err)
		return
	}
	if _, hooks, err := net.SplitHostPort(f.push.hooksAddress); err == nil && hooks == fmt.Sprint(port) {
		bad("webhook-address", "port %d is that of --hooks-address: give one of them another", port)
	}
}

// parseNames reads a comma list of host names and addresses, without ports.
func parseNames(list string) ([]string, error) {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.ToLower(strings.TrimSpace(s)); s == "" {
			continue
		}
		if net.ParseIP(s) == nil && len(validation.IsDNS1123Subdomain(s)) > 0 {
			return nil, fmt.Errorf("%q is neither a name nor an IP: write them without https:// and port", s)
		}
		out = append(out, s)
	}
	return out, nil
}

// addAdmission adds the admission webhooks. pools knows which profiles there are. The
// certificates are nil where there is nothing to tell an API server.
func addAdmission(mgr ctrl.Manager, f *controllerFlags, pools webhook.Pools, facts nodeFacts) (*webhook.Certificates, error) {
	a := f.admission
	if a.off() {
		return nil, nil
	}
	if a.service.Name == "" {
		a.service = types.NamespacedName{Namespace: f.namespace, Name: api.WebhookServiceName}
	}
	certificates, err := webhook.Setup(mgr, webhook.Options{
		Address: a.address, ClientCAFile: a.clientCAFile, CertDir: a.certDir,
		Namespace: f.namespace, Service: a.service, Hosts: a.hosts, Clock: clock.RealClock{}, Metrics: facts.metrics,
	}, webhook.Handlers{Pools: pools, Checker: facts.engine, DenyUnknownProfiles: a.denyUnknown})
	if err != nil {
		return nil, fmt.Errorf("setting up --webhook-address: %w", err)
	}
	return certificates, nil
}
