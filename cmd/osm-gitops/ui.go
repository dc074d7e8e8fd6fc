package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui"
)

// How long results that were read from the cluster are reused.
const (
	uiFresh          = 15 * time.Second
	uiStale          = 5 * time.Minute
	uiWait           = 2 * time.Second
	uiPageSize int64 = 500
)

func newUICommand() *cobra.Command {
	var flags verifyFlags
	var address string
	cmd := &cobra.Command{
		Annotations: map[string]string{runsUntilStopped: ""},

		Use:   "ui",
		Short: "show the audit page on this machine: which node runs which commit",
		Long: `Show the audit page on this machine: which node runs which commit, what a commit
changed, and the evidence for it.

It reads with your permissions, needs no controller, writes nothing to the cluster, and
runs until you stop it. It listens on loopback only: anyone who can open connections on
this machine sees what you see, which includes no credentials. With --from it shows a file
of trace --dump.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runUI(cmd.Context(), &flags, address, cmd.ErrOrStderr())
		},
	}
	flags.bind(cmd)
	cmd.Flags().Lookup("namespace").Usage = "`NAMESPACE` of the controller, as --controller-namespace"
	cmd.Flags().StringVar(&address, "address", "8087", "port on loopback, or loopback address and port; 0 selects a free port")
	return cmd
}

func runUI(ctx context.Context, flags *verifyFlags, address string, stderr io.Writer) error {
	listen, loopback := "127.0.0.1:0", true
	if address != "0" {
		var err error
		if listen, loopback, err = ui.SplitAddress(address); err != nil {
			return cli.Misusef("--address 8087", "--address: %w", err)
		}
	}
	if !loopback {
		return cli.Misusef("for other users, use osm-gitops controller --ui-address", "--address: %q is not on loopback, and other users would see everything that you can see", address)
	}
	if err := flags.repo.CheckOptional(); err != nil {
		return err
	}
	clusters, err := flags.access.Open()
	if err != nil {
		return err
	}
	verifier, done, err := flags.newVerifier()
	if err != nil {
		return err
	}
	defer done()
	if err := checkReachable(ctx, clusters.Management); err != nil {
		fmt.Fprintf(stderr, "osm-gitops: the API server does not answer, so pages fail: %v\n", err)
	}
	reader := &fleet.Reader{Management: clusters.Management, Worker: clusters.Worker, Namespace: clusters.Namespace, PageSize: uiPageSize}
	if flags.access.From == "" { // a dump has no BootReports
		reader.Reports = func() client.Reader { return clusters.Worker }
	}
	v, _ := buildVersion()
	server := &ui.Server{
		Snapshots: &fleet.Snapshots{Read: reader.Read, Clock: clock.RealClock{}, Fresh: uiFresh, Wait: uiWait, Stale: uiStale},
		Trails:    clusters, Verifier: verifier, Hosts: clusters.Hosts, Clock: clock.RealClock{}, Version: v,
	}
	ctrl.SetLogger((&controllerFlags{logFormat: "Console"}).newLogger(stderr))
	listener := &ui.Listener{Server: server, Address: listen, Listening: func(at net.Addr) {
		fmt.Fprintf(stderr, "osm-gitops: the audit page is at http://%s/; press Ctrl-C to stop\n", at)
	}}
	return listener.Start(ctx)
}

// reachableTimeout bounds the check for a reachable API server.
const reachableTimeout = 5 * time.Second

// checkReachable returns an error if no API server answers. Any answer is enough: pages name
// the permissions that the user lacks.
func checkReachable(ctx context.Context, cluster client.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, reachableTimeout)
	defer cancel()
	err := cluster.List(ctx, &api.ProfileSourceList{}, client.Limit(1))
	var answered apierrors.APIStatus
	if err == nil || errors.As(err, &answered) || apimeta.IsNoMatchError(err) {
		return nil
	}
	return err
}
