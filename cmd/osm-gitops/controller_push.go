package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/receiver"
)

// pushFlags are about what comes from Git hosts and what goes to them and to Flux.
type pushFlags struct {
	hooksAddress, hooksCert, hooksKey string
	eventsAddress                     string
	clusterName                       string
}

func (p *pushFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&p.hooksAddress, "hooks-address", "", "address at which Git hosts are listened to for pushes, such as :9292, at the path "+receiver.Path+"; empty or 0: nowhere")
	fs.StringVar(&p.hooksCert, "hooks-cert-file", "", "PEM file with the certificate of --hooks-address, read again when it changes; empty: plain http, for a proxy in front that has TLS")
	fs.StringVar(&p.hooksKey, "hooks-key-file", "", "PEM file with the key of --hooks-cert-file")
	fs.StringVar(&p.eventsAddress, "events-addr", "", "URL of Flux's notification-controller, such as http://notification-controller.flux-system.svc.cluster.local./; empty: events go to the API server only")
	fs.StringVar(&p.clusterName, "cluster-name", "", "name of this cluster in the commit statuses that Git hosts show")
}

// off reports that nothing listens for webhooks.
func (p *pushFlags) off() bool { return p.hooksAddress == "" || p.hooksAddress == "0" }

// clusterName goes into the context of a commit status, by which people require it.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

func (p *pushFlags) validate(bad func(flag, format string, args ...any)) {
	if _, _, err := net.SplitHostPort(p.hooksAddress); err != nil && !p.off() {
		bad("hooks-address", "%q is no address: write host:port, or :port for every address of this machine", p.hooksAddress)
	}
	if (p.hooksCert == "") != (p.hooksKey == "") {
		bad("hooks-cert-file", "--hooks-cert-file and --hooks-key-file belong together: give both or neither")
	}
	if p.hooksCert != "" && p.off() {
		bad("hooks-cert-file", "is of no use without --hooks-address")
	}
	if p.eventsAddress != "" {
		u, err := url.Parse(p.eventsAddress)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			bad("events-addr", "it must be an http or https URL without user and password")
		}
	}
	if p.clusterName != "" && !clusterName.MatchString(p.clusterName) {
		bad("cluster-name", "%q: at most 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends", p.clusterName)
	}
}

// addPush adds what listens to Git hosts, and what reports to them and to Flux.
func addPush(mgr ctrl.Manager, f *controllerFlags, sources *profilesource.Reconciler) error {
	if f.push.eventsAddress != "" {
		instance, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding this machine's name: %w", err)
		}
		sender := notify.NewSender(f.push.eventsAddress)
		if err := mgr.Add(sender); err != nil {
			return fmt.Errorf("setting up --events-addr: %w", err)
		}
		sources.Recorder = notify.Recorder{EventRecorder: sources.Recorder, Sender: sender, Instance: instance}
	}
	statuses := &commitstatus.Statuses{
		Client: mgr.GetClient(), Pools: sources.PoolReader, Live: mgr.GetAPIReader(), Recorder: sources.Recorder, Remote: sources.Remote,
		Cluster: f.push.clusterName, AllowedCIDRs: f.gitAllowedCIDRs, AllowInsecure: f.allowInsecureGit,
	}
	if err := mgr.Add(statuses); err != nil {
		return fmt.Errorf("setting up commit statuses: %w", err)
	}
	sources.Statuses = statuses
	if f.push.off() {
		return nil
	}
	err := mgr.Add(&receiver.Listener{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: sources.Recorder,
		Namespace: f.namespace, Address: f.push.hooksAddress,
		CertFile: f.push.hooksCert, KeyFile: f.push.hooksKey,
	})
	if err != nil {
		return fmt.Errorf("setting up --hooks-address: %w", err)
	}
	return nil
}
