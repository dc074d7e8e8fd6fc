package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/manager"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/handback"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// handbackFlags are the flags of `osm-gitops handback`.
type handbackFlags struct {
	clusters.Flags

	namespace                string
	auditLog                 string
	dryRun, force, overwrite bool
}

func newHandbackCommand() *cobra.Command {
	f := &handbackFlags{}
	cmd := &cobra.Command{
		Use:   "handback",
		Short: "prepare a cluster for operating-system-manager, which served it before",
		Long: `Prepare a cluster for operating-system-manager, which served it before.

Stop the controller first. Each step is printed; with --dry-run none is executed. You can
repeat the command.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.namespace == "" {
				return cli.Misusef("see osm-gitops handback --help", "--namespace: is required: name the namespace of the controller")
			}
			return runHandback(cmd.Context(), f, cli.NewEscapingWriter(cmd.OutOrStdout(), ""), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.Bind(cmd)
	fs.StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` of the controller (required)")
	fs.StringVar(&f.auditLog, "audit-log", "", "file that the controller wrote as its --audit-log, for an entry about this")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and fail if the real run would")
	fs.BoolVar(&f.force, "force", false, "continue although a controller runs, machines are booting, or a version of a profile is missing")
	fs.BoolVar(&f.overwrite, "overwrite-profiles", false, "replace OperatingSystemProfiles of other owners that have the name of a profile of a ProfileSource")
	return cmd
}

// runHandback prints the plan and applies it unless a check rejects it.
func runHandback(ctx context.Context, f *handbackFlags, stdout, stderr io.Writer) error {
	config, _, err := f.Configs()
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "osm-gitops: handing back the cluster of %s\n", redact.PrintableLine(config.Host))
	management, worker, err := f.Clients()
	if err != nil {
		return err
	}
	h := &handback.Cluster{Management: management, Worker: worker, Namespace: f.namespace, LeaseName: manager.LeaseName, Now: time.Now(), Overwrite: f.overwrite}
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
	printLine := func(what string) { fmt.Fprintln(stdout, what) }
	if f.dryRun {
		for _, s := range plan.Steps {
			printLine(s.What)
		}
	}
	if len(plan.Obstacles) > 0 && !f.force {
		return errors.New("the cluster is not handed back: see above; to continue, set --force")
	}
	if f.dryRun {
		return nil
	}
	return f.apply(ctx, plan, printLine)
}

// apply executes the plan. It also writes an audit log entry after a failure, when some
// steps are already applied.
func (f *handbackFlags) apply(ctx context.Context, plan *handback.Plan, printLine func(string)) error {
	note, err := f.openAuditLog()
	if err != nil {
		return err
	}
	begun := 0
	err = plan.Apply(ctx, func(what string) {
		begun++
		printLine(what)
	})
	if err != nil {
		return errors.Join(err, note("Failed", fmt.Sprintf("preparing the cluster for operating-system-manager failed at step %d of %d", begun, len(plan.Steps))))
	}
	return note("", fmt.Sprintf("the cluster was prepared for operating-system-manager: %d steps", len(plan.Steps)))
}

// openAuditLog opens the audit log before any step. The returned function writes the entry and
// closes the log.
func (f *handbackFlags) openAuditLog() (note func(reason, message string) error, err error) {
	if f.auditLog == "" {
		return func(string, string) error { return nil }, nil
	}
	l, err := auditlog.Open(f.auditLog, clock.RealClock{}, logr.Discard())
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	return func(reason, message string) error {
		version, commit := buildVersion()
		err := l.Append(auditlog.Event{
			Kind: auditlog.HandedBack, Object: auditlog.Object{Kind: manager.ControllerKind, Namespace: f.namespace, Name: "osm-gitops"},
			Key:        manager.InstanceIdentity() + " " + time.Now().UTC().Format(time.RFC3339Nano),
			Reason:     reason,
			Message:    message,
			Controller: &auditlog.Controller{Version: version, Commit: commit, Instance: manager.InstanceIdentity()},
		})
		if err := errors.Join(err, l.Close()); err != nil {
			return fmt.Errorf("writing it to the audit log: %w", err)
		}
		return nil
	}, nil
}
