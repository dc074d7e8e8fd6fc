package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/manager"
)

func newControllerCommand() *cobra.Command { return controllerCommand(newControllerFlags()) }

func controllerCommand(f *controllerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Annotations: map[string]string{runsUntilStopped: ""},

		Use:   "controller",
		Short: "sync profiles from Git into the cluster, and maintain what pools boot from",
		Long: `Sync profiles from Git into the cluster, and maintain what pools boot from.

The controller runs until it is stopped; with --dry-run it exits after the report. You can
write all flags with one dash or two.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parseAndValidate(); err != nil {
				return flagError(cmd, err)
			}
			f.Version, f.Commit = buildVersion()
			f.setLogger()
			switch {
			case f.dryRun:
				return runDryRun(cmd.Context(), f, cli.NewEscapingWriter(cmd.OutOrStdout(), f.output))
			case f.Observe:
				return manager.PublishDryRuns(cmd.Context(), &f.Options)
			}
			return manager.Run(cmd.Context(), &f.Options)
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

// runDryRun prints what the controller would do. It returns an error if something would be
// rejected or could not be read.
func runDryRun(ctx context.Context, f *controllerFlags, stdout io.Writer) error {
	report, err := manager.DryRun(ctx, &f.Options)
	if err != nil {
		return err
	}
	if err := cli.Print(stdout, f.output, report, report.Text); err != nil {
		return err
	}
	if report.HasFailures() {
		return errors.New("something is rejected, or could not be checked: see above")
	}
	return nil
}

// setLogger sets the logger of all packages, and logs which accepted flags have no effect.
func (f *controllerFlags) setLogger() {
	log := f.newLogger(os.Stderr)
	ctrl.SetLogger(log)
	if names := f.ignoredFlags(); len(names) > 0 {
		log.Info("ignoring flags without effect: use -log-debug and -log-format", "flags", names)
	}
}

// newLogger escapes untrusted text: --dry-run can log in a CI job.
func (f *controllerFlags) newLogger(stderr io.Writer) logr.Logger {
	level, console := zapcore.InfoLevel, strings.EqualFold(f.logFormat, "console")
	switch {
	case f.logDebug:
		level = zapcore.DebugLevel
	case f.dryRun: // its report is the answer
		level = zapcore.ErrorLevel
	}
	output := "json"
	if console {
		output = "text"
	}
	to := zapcore.Lock(zapcore.AddSync(cli.NewEscapingWriter(stderr, output)))
	return zap.New(zap.UseDevMode(console), zap.Level(level), zap.StacktraceLevel(zapcore.PanicLevel), zap.WriteTo(to))
}

// normalizeControllerDashes turns "-flag" into "--flag" for the controller: operating-system-manager
// accepts its flags with one dash or two.
func normalizeControllerDashes(args []string) []string {
	if len(args) == 0 || args[0] != "controller" {
		return args
	}
	return append([]string{args[0]}, toDoubleDashes(args[1:])...)
}

// toDoubleDashes turns each argument of the form -flag into --flag.
func toDoubleDashes(args []string) []string {
	out := make([]string, 0, len(args))
	for _, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			a = "-" + a
		}
		out = append(out, a)
	}
	return out
}
