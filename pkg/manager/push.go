package manager

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/receiver"
)

// addPush adds the receiver of pushes, and the reports to Git hosts, which it returns, and Flux.
func addPush(mgr ctrl.Manager, opts *Options, sources *profilesource.Reconciler) (*commitstatus.Statuses, error) {
	if opts.Push.EventsAddress != "" {
		instance, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("finding this machine's name: %w", err)
		}
		sender := notify.NewSender(opts.Push.EventsAddress)
		if err := mgr.Add(sender); err != nil {
			return nil, fmt.Errorf("setting up --events-addr: %w", err)
		}
		sources.Recorder = notify.Recorder{EventRecorder: sources.Recorder, Sender: sender, Instance: instance}
	}
	statuses := &commitstatus.Statuses{
		Client: mgr.GetClient(), Namespace: opts.Namespace, Live: mgr.GetAPIReader(), Recorder: sources.Recorder, Remote: sources.Fetcher.NewRemote,
		Cluster: opts.Push.ClusterName, AllowedCIDRs: opts.GitAllowedCIDRs, AllowInsecure: opts.AllowInsecureGit,
	}
	if sources.Pools != nil {
		statuses.Pools = sources.Pools.Reader
	}
	if err := mgr.Add(statuses); err != nil {
		return nil, fmt.Errorf("setting up commit statuses: %w", err)
	}
	sources.Statuses = statuses
	if opts.Push.Address == "" {
		return statuses, nil
	}
	err := mgr.Add(&receiver.Listener{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: sources.Recorder,
		Namespace: opts.Namespace, Address: opts.Push.Address,
		CertFile: opts.Push.CertFile, KeyFile: opts.Push.KeyFile,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up --hooks-address: %w", err)
	}
	return statuses, nil
}
