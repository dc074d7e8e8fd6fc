package manager

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
)

// uiFresh is how long facts from the caches are reused by the audit page. Reading them
// takes only time.
const uiFresh = 2 * time.Second

// addUI adds the audit page to the manager of the worker cluster.
func addUI(management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options, deps dependencies) error {
	if opts.UI.Address == "" {
		return nil
	}
	reader := &fleet.Reader{Management: management.GetClient(), Worker: mgr.GetClient(), Reports: deps.reports.get, Namespace: opts.Namespace}
	verifier := &verify.Verifier{
		Management: management.GetAPIReader(), Worker: mgr.GetAPIReader(), Namespace: opts.Namespace,
		Engine: deps.engine, Check: lint.TemplateCheck(deps.engine), Builtin: catalog.Builtin(), Git: deps.mirrors,
		FollowedOnly: true, // viewers choose what is verified
	}
	server := &ui.Server{
		Snapshots: &fleet.Snapshots{Read: reader.Read, Clock: clock.RealClock{}, Fresh: uiFresh, Stale: uiFresh},
		Trails:    trace.Clusters{Management: management.GetAPIReader(), Worker: mgr.GetAPIReader(), Namespace: opts.Namespace},
		Verifier:  verifier, Clock: clock.RealClock{}, Version: opts.Version,
	}
	if !opts.UI.Open {
		server.Authorizer = &ui.Authorizer{Client: mgr.GetClient(), Clock: clock.RealClock{}}
	}
	if err := mgr.Add(&ui.Listener{Server: server, Address: opts.UI.Address, CertFile: opts.UI.CertFile, KeyFile: opts.UI.KeyFile}); err != nil {
		return fmt.Errorf("setting up --ui-address: %w", err)
	}
	return nil
}
