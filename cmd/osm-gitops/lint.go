package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/config"
	outputpkg "github.com/osm-gitops/osm-gitops/pkg/lint/output"
	"github.com/osm-gitops/osm-gitops/pkg/lint/rulebook"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// lintFlags are the flags of `osm-gitops lint`.
type lintFlags struct {
	output, severity string
	progress         bool
	fileTimeout      time.Duration
	rules            ruleFlags
}

func newLintCommand() *cobra.Command {
	var flags lintFlags
	cmd := &cobra.Command{
		Use:   "lint [PATH...] [-o " + strings.Join(outputpkg.Names(), "|") + "]",
		Short: "check profiles before they are merged",
		Long: `Check profiles before they are merged: files, and folders as a ProfileSource of
them reads them, without what an .osmignore leaves out. Without a PATH it is the folder
that .osm-gitops.yaml names as profiles.

Each profile is rendered for every provider that it claims with every supported
kubelet, any two settings together (proxy, registries, external cloud provider,
IP family, and so on), with placeholders for credentials. Findings point to the
line of the profile, those in rendered text, too. Nothing is read over the
network, and no program is run but shellcheck, where it is installed.

With --cluster FILE the flags of the controller are checked as well. With --base REV
versions are compared with that revision of the repository: each change needs a
version of its own. Settings, and findings that somebody has accepted and why, are
in .osm-gitops.yaml.

Exit status 0: no error and no warning; 1: there are some, or the command failed;
2: misuse. --severity sets another threshold.`,
		Example: "  osm-gitops lint\n  osm-gitops lint --base main profiles\n  osm-gitops lint -o json profiles/osp-ubuntu.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLint(cmd.Context(), flags, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&flags.output, "output", "o", "text", "how to print findings: "+strings.Join(outputpkg.Names(), ", "))
	cmd.Flags().StringVar(&flags.severity, "severity", string(lint.SeverityWarning), "least severity of a finding that makes the command fail: error, warning or note")
	cmd.Flags().BoolVar(&flags.progress, "progress", false, "say on standard error how far it has come; default where that is a terminal")
	cmd.Flags().DurationVar(&flags.fileTimeout, "file-timeout", lint.DefaultFileTime, "how long a file may be checked; what is not done by then is a finding")
	flags.rules.bind(cmd.Flags())
	return cmd
}

func (f lintFlags) check() error {
	if err := f.rules.check(); err != nil {
		return err
	}
	if !slices.Contains(outputpkg.Names(), f.output) {
		return misusef("-o "+strings.Join(outputpkg.Names(), ", -o "), "unknown output %q", f.output)
	}
	if f.fileTimeout <= 0 {
		return misusef("--file-timeout 2m", "--file-timeout %v is no time to check anything", f.fileTimeout)
	}
	switch lint.Severity(f.severity) {
	case lint.SeverityError, lint.SeverityWarning, lint.SeverityNote:
		return nil
	}
	return misusef("--severity error, --severity warning or --severity note", "unknown severity %q", f.severity)
}

func runLint(ctx context.Context, flags lintFlags, paths []string, stdout, stderr io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	if len(paths) == 0 {
		d, err := defaultsAt(".", flags.rules.config)
		if err != nil {
			return err
		}
		if d.profiles == "" {
			return misusef("osm-gitops lint PATH...", "no file or folder given, and no %s names one as profiles", config.Name)
		}
		paths = []string{d.profiles}
	}
	files, unreadable, err := lint.Read(ctx, paths)
	if err != nil {
		return err
	}
	if len(files)+len(unreadable) == 0 {
		return fmt.Errorf("%s: there is no file *.yaml or *.yml that is not hidden or ignored", strings.Join(paths, ", "))
	}
	rules, err := flags.rules.prepare(ctx, paths, stderr)
	if err != nil {
		return err
	}
	linter := rules.linter()
	linter.FileTime = flags.fileTimeout
	linter.Bases = &lint.Bases{Builtin: profile.Builtin()}
	done := func() {}
	if flags.progress || isTerminal(stderr) {
		linter.Progress, done = progressOn(stderr)
	}
	report, err := linter.Run(ctx, files)
	done()
	if err != nil {
		return err
	}
	report.Findings = append(report.Findings, unreadable...)
	if err := rules.complete(report); err != nil {
		return err
	}
	release, _ := buildVersion()
	return printFindings(flags, outputpkg.Run{Report: report, Rules: rulebook.All(), Version: release}, stdout)
}

// printFindings prints findings, and fails where there are some that count.
func printFindings(flags lintFlags, run outputpkg.Run, stdout io.Writer) error {
	if err := outputpkg.Write(stdout, flags.output, run); err != nil {
		return err
	}
	least, found := lint.Severity(flags.severity), 0
	for _, f := range run.Report.Findings {
		if f.Severity.AtLeast(least) {
			found++
		}
	}
	switch found {
	case 0:
		return nil
	case 1:
		return errors.New("1 finding has to be mended, or suppressed with a reason")
	}
	return fmt.Errorf("%d findings have to be mended, or suppressed with a reason", found)
}

// isTerminal reports whether a person reads what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progressOn writes one line over and over, at most once for each percent.
func progressOn(w io.Writer) (tell func(lint.Progress), done func()) {
	last := -1
	tell = func(p lint.Progress) {
		if percent := 100 * p.Done / max(p.Total, 1); percent != last {
			last = percent
			fmt.Fprintf(w, "\r\x1b[Kosm-gitops: rendering %s: %d of %d", p.Profile, p.Done, p.Total)
		}
	}
	return tell, func() { fmt.Fprint(w, "\r\x1b[K") }
}
