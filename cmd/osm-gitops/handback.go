package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
)

// handbackFlags are those of handback.
type handbackFlags struct {
	kubeconfig, workerKubeconfig string
	namespace                    string
	dryRun, force, overwrite     bool
}

func newHandbackCommand() *cobra.Command {
	f := &handbackFlags{}
	cmd := &cobra.Command{
		Use:   "handback",
		Short: "prepare a cluster for operating-system-manager, which served it before",
		Long: `Prepare a cluster for operating-system-manager, which served it before.

Stop the controller first. What is done is printed; with --dry-run nothing is. It may
be run again.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.namespace == "" {
				return misusef("see osm-gitops handback --help", "--namespace: is required: name the namespace of the controller")
			}
			return runHandback(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: in-cluster, or the KUBECONFIG of the environment")
	fs.StringVar(&f.workerKubeconfig, "worker-cluster-kubeconfig", "", "kubeconfig of the worker cluster; empty: the same cluster")
	fs.StringVar(&f.namespace, "namespace", "", "namespace of the controller (required)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be done")
	fs.BoolVar(&f.force, "force", false, "do it although a controller runs or machines are booting")
	fs.BoolVar(&f.overwrite, "overwrite-profiles", false, "replace OperatingSystemProfiles that others made under the names of profiles of a ProfileSource")
	return cmd
}

// runHandback plans, and does what it planned unless something stands against it.
func runHandback(ctx context.Context, f *handbackFlags, stdout, stderr io.Writer) error {
	management, err := adminClient(f.kubeconfig)
	if err != nil {
		return err
	}
	worker := management
	if f.workerKubeconfig != "" {
		if worker, err = adminClient(f.workerKubeconfig); err != nil {
			return err
		}
	}
	h := &pools.Handback{Management: management, Worker: worker, Namespace: f.namespace, LeaseName: leaseName, Now: time.Now(), Overwrite: f.overwrite}
	plan, err := h.Plan(ctx)
	if err != nil {
		return err
	}
	for _, w := range plan.Warnings {
		fmt.Fprintf(stderr, "osm-gitops: warning: %s\n", w)
	}
	for _, o := range plan.Obstacles {
		fmt.Fprintf(stderr, "osm-gitops: %s\n", o)
	}
	tell := func(what string) { fmt.Fprintln(stdout, what) }
	if f.dryRun {
		for _, s := range plan.Steps {
			tell(s.What)
		}
		return nil
	}
	if len(plan.Obstacles) > 0 && !f.force {
		return fmt.Errorf("%w: see above; --force does it nevertheless", pools.ErrHandbackRefused)
	}
	return plan.Apply(ctx, tell)
}

// adminClient reads and writes a cluster with the rights of whoever runs the program.
func adminClient(kubeconfig string) (client.Client, error) {
	cfg, err := (&controllerFlags{kubeconfig: kubeconfig}).restConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return c, nil
}
