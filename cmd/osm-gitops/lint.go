package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/mirrored"
	outputpkg "github.com/osm-gitops/osm-gitops/pkg/lint/output"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellcheck"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
	"github.com/osm-gitops/osm-gitops/pkg/lint/versions"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// lintFlags are the flags of `osm-gitops lint`.
type lintFlags struct {
	output, severity string
	fileTimeout      time.Duration
	rules            ruleFlags
}

func newLintCommand() *cobra.Command {
	var flags lintFlags
	cmd := &cobra.Command{
		Use:   "lint [PATH...] [-o " + strings.Join(outputpkg.Names(), "|") + "]",
		Short: "check profiles before they are merged",
		Long: `Check profiles before they are merged: files, and folders as a ProfileSource reads them,
without the files that an .osmignore excludes. The default PATH is the folder that
.osm-gitops.yaml names as profiles.

Each profile is rendered for every provider that it lists with every supported
kubelet, any two settings together (proxy, registries, external cloud provider,
IP family, and so on), with placeholders for credentials. Findings point to the
line of the profile, also those in rendered text. Nothing is read over the
network, and no program is run except shellcheck, if it is installed.

With --cluster FILE the flags of the controller are checked as well. With --base REV
versions are compared with that revision of the repository: each change needs its own
version. Settings, and accepted findings with the reason, are in .osm-gitops.yaml.

Exit status 0: no error and no warning; 1: there are some, or the command failed;
2: misuse. --severity sets another threshold.`,
		Example: "  osm-gitops lint\n  osm-gitops lint --base main profiles\n  osm-gitops lint -o json profiles/osp-ubuntu.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLint(cmd.Context(), flags, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cli.BindOutput(cmd.Flags(), &flags.output, outputpkg.Names()...)
	cmd.Flags().StringVar(&flags.severity, "severity", string(lint.SeverityWarning), "lowest severity that makes the command fail: error, warning or note")
	cmd.Flags().DurationVar(&flags.fileTimeout, "file-timeout", lint.DefaultFileTime, "time limit for a file; a check that exceeds it is a finding")
	flags.rules.bind(cmd.Flags())
	return cmd
}

func (f lintFlags) check() error {
	if err := f.rules.check(); err != nil {
		return err
	}
	if f.fileTimeout <= 0 {
		return cli.Misusef("--file-timeout 2m", "--file-timeout %v is too short", f.fileTimeout)
	}
	switch lint.Severity(f.severity) {
	case lint.SeverityError, lint.SeverityWarning, lint.SeverityNote:
		return nil
	}
	return cli.Misusef("--severity error, --severity warning or --severity note", "unknown severity %q", f.severity)
}

// lintGCPercent trades memory, 50 MB for the built-in profiles, for a fifth of the CPU of a
// command that ends after a second.
const lintGCPercent = 400

func runLint(ctx context.Context, flags lintFlags, paths []string, stdout, stderr io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	if len(paths) == 0 {
		d, err := load.DefaultsAt(".", flags.rules.config)
		if err != nil {
			return err
		}
		if d.Profiles == "" {
			return cli.Misusef("osm-gitops lint PATH...", "no file or folder given, and no %s names one as profiles", lint.ConfigName)
		}
		paths = []string{d.Profiles}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(lintGCPercent)
	}
	files, unreadable, err := lint.Read(ctx, paths)
	if err != nil {
		return err
	}
	if len(files)+len(unreadable) == 0 {
		return fmt.Errorf("%s: found no file *.yaml or *.yml that is not hidden or ignored", strings.Join(paths, ", "))
	}
	rules, err := flags.rules.readRuleInputs(ctx, paths, stderr)
	if err != nil {
		return err
	}
	linter := rules.newLinter()
	linter.FileTime = flags.fileTimeout
	linter.Bases = &lint.Bases{Builtin: catalog.Builtin()}
	printed := map[lint.Finding]bool{}
	var unprinted error
	if flags.output == "text" {
		linter.Found = func(findings []lint.Finding) {
			if unprinted != nil || rules.shellcheckError() != nil {
				return
			}
			findings = rules.filter(findings)
			unprinted = outputpkg.PrintText(stdout, findings)
			for _, f := range findings {
				printed[f] = true
			}
		}
	}
	report, err := linter.Run(ctx, files)
	if err == nil {
		err = unprinted
	}
	if err != nil {
		return err
	}
	report.Findings = append(report.Findings, unreadable...)
	if err := rules.addFindingsAndApplyConfig(report); err != nil {
		return err
	}
	release, _ := buildVersion()
	return printAndCheckFindings(flags, outputpkg.Run{Report: report, Rules: lint.Rules(), Version: release, Printed: printed}, stdout)
}

// printAndCheckFindings prints the findings, and returns an error if any reaches the severity of
// --severity.
func printAndCheckFindings(flags lintFlags, run outputpkg.Run, stdout io.Writer) error {
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
		return errors.New("1 finding must be fixed, or suppressed with a reason")
	}
	return fmt.Errorf("%d findings must be fixed, or suppressed with a reason", found)
}

// ruleFlags are the flags for checks other than rendering.
type ruleFlags struct {
	config, base, shellcheck, mirrors, cluster string
	noCache                                    bool
}

func (f *ruleFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.config, "config", "", "`FILE` with settings and suppressions; default "+lint.ConfigName+" in the folder of the first PATH or above it, up to the repository's")
	fs.StringVar(&f.base, "base", "", "`REV` of the repository to compare versions with: a branch, a tag, a commit, or something like HEAD~1")
	fs.StringVar(&f.mirrors, "mirrors", "", "`FILE` with mirrored downloads, as osm-gitops bundle -o mirrors writes it: every other download is a finding")
	fs.StringVar(&f.cluster, "cluster", "", "`FILE` with the key settings, as for osm-gitops render: the flags of the controller, which are checked as well")
	fs.StringVar(&f.shellcheck, "shellcheck", "", "whether to run shellcheck on scripts: auto, if it is installed; require; off; default the value in the configuration, otherwise auto")
	fs.BoolVar(&f.noCache, "no-cache", false, "run shellcheck on every script, and store no answers; default: answers are stored in osm-gitops/lint in the user's cache folder")
}

func (f *ruleFlags) check() error {
	if f.shellcheck != "" && !slices.Contains([]string{"auto", "require", "off"}, f.shellcheck) {
		return cli.Misusef("--shellcheck auto, --shellcheck require or --shellcheck off", "unknown value %q of --shellcheck", f.shellcheck)
	}
	return nil
}

// ruleRun has the inputs of checks other than rendering.
type ruleRun struct {
	config     *lint.Config
	folder     string // of the configuration
	shellcheck *shellcheck.Checker
	missing    []lint.MissingTool
	base       *versions.Comparison
	mirrored   lint.ProfileCheck // nil without --mirrors
	settings   []lint.Finding    // of --cluster
}

// readRuleInputs reads the inputs of the rules before rendering starts.
func (f *ruleFlags) readRuleInputs(ctx context.Context, paths []string, stderr io.Writer) (*ruleRun, error) {
	r := &ruleRun{}
	if err := r.readConfig(f.config, paths[0]); err != nil {
		return nil, err
	}
	if err := r.findShellcheck(f.shellcheck, f.noCache); err != nil {
		return nil, err
	}
	if f.mirrors != "" {
		text, err := load.File(f.mirrors, nil)
		if err != nil {
			return nil, fmt.Errorf("--mirrors: %w", err)
		}
		mirrors, err := mirrored.Parse(f.mirrors, text)
		if err != nil {
			return nil, err
		}
		r.mirrored = mirrored.Check(mirrors, f.mirrors, r.config.Lint.Providers)
	}
	if f.cluster != "" {
		file, err := load.ReadClusterFile(f.cluster, nil)
		if err != nil {
			return nil, fmt.Errorf("--cluster: %w", err)
		}
		r.settings = lint.CheckSettings(f.cluster, file.Settings, file.Lines)
	}
	if f.base != "" {
		index := catalog.Indexer{Check: lint.TemplateCheck(render.NewEngine()), Builtin: catalog.Builtin()}
		base, err := versions.ReadBase(ctx, &index, paths, f.base)
		if err != nil {
			return nil, err
		}
		r.base = &base
		if r.config.Pools != "" {
			folder := filepath.Join(r.folder, filepath.FromSlash(r.config.Pools))
			pools, err := load.PoolsByProfile(ctx, folder, stderr)
			if err != nil {
				cli.Warn(stderr, fmt.Errorf("the pools of profiles are unknown: pools: %w", err))
			} else {
				r.base.Pools = func(profile string) []string { return pools[profile] }
			}
		}
	}
	return r, nil
}

func (r *ruleRun) readConfig(path, first string) error {
	if path == "" {
		found, err := lint.FindConfig(first)
		if err != nil {
			return err
		}
		if found == "" {
			r.config = &lint.Config{}
			return nil
		}
		path = load.RelativePathFrom(".", found)
	}
	data, err := lint.ReadConfig(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--config: file %s not found", path)
	}
	if err != nil {
		return err
	}
	r.folder = filepath.Dir(path)
	r.config, err = lint.ParseConfig(path, data)
	return err
}

func (r *ruleRun) findShellcheck(mode string, noCache bool) error {
	mode = cmp.Or(mode, r.config.Lint.Shellcheck)
	if mode == "off" {
		return nil
	}
	path := shellcheck.Find()
	switch {
	case path != "":
		r.shellcheck = &shellcheck.Checker{Path: path, Level: r.config.Lint.ShellcheckSeverity}
		if dir, err := os.UserCacheDir(); err == nil && !noCache {
			r.shellcheck.Cache = shellcheck.OpenCache(filepath.Join(dir, "osm-gitops", "lint"))
		}
	case mode == "require":
		return fmt.Errorf("shellcheck is required and not installed: %s", shellcheck.Missing().Means)
	default:
		r.missing = append(r.missing, shellcheck.Missing())
	}
	return nil
}

// newLinter combines the checks of all rules.
func (r *ruleRun) newLinter() lint.Linter {
	l := lint.Linter{TextChecks: []lint.TextCheck{shellrules.Check}, Kubelets: r.config.Lint.KubeletVersions}
	for _, p := range r.config.Lint.Providers {
		l.Providers = append(l.Providers, string(p))
	}
	if r.mirrored != nil {
		l.ProfileChecks = append(l.ProfileChecks, r.mirrored)
	}
	if r.shellcheck != nil {
		l.TextsChecks = append(l.TextsChecks, r.shellcheck.Check)
	}
	return l
}

// addFindingsAndApplyConfig adds the findings that need all profiles, and applies the configuration.
func (r *ruleRun) addFindingsAndApplyConfig(report *lint.Report) error {
	if err := r.shellcheckError(); err != nil {
		return err
	}
	report.Missing = append(report.Missing, r.missing...)
	report.Findings = append(report.Findings, r.settings...)
	if r.base != nil {
		r.base.Documents = report.Documents
		broken := map[string]bool{}
		for _, f := range report.Findings {
			switch f.Rule {
			case lint.RuleYAML, lint.RuleSchema, lint.RuleUnreadable, lint.RuleOverlay:
				broken[filepath.Clean(f.Path)] = true
			}
		}
		r.base.Broken = func(name string) bool { return broken[filepath.Clean(name)] }
		report.Findings = append(report.Findings, r.base.Findings()...)
	}
	report.Findings, report.Suppressed = r.config.Apply(report.Findings, time.Now(), r.relativeToConfig)
	return nil
}

// shellcheckError returns the error of a check that makes the findings incomplete.
func (r *ruleRun) shellcheckError() error {
	if r.shellcheck == nil {
		return nil
	}
	return r.shellcheck.Err()
}

// filter applies the configuration to findings before the others are known.
func (r *ruleRun) filter(findings []lint.Finding) []lint.Finding {
	return r.config.Filter(findings, time.Now(), r.relativeToConfig)
}

// relativeToConfig returns a path from the folder of the configuration.
func (r *ruleRun) relativeToConfig(path string) string { return load.RelativePathFrom(r.folder, path) }
