package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/config"
	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/lint/mirrored"
	"github.com/osm-gitops/osm-gitops/pkg/lint/rulebook"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellcheck"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
	"github.com/osm-gitops/osm-gitops/pkg/lint/versions"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// ruleFlags say what lint looks for beside rendering.
type ruleFlags struct {
	config, base, shellcheck, mirrors, cluster string
}

func (f *ruleFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.config, "config", "", "`FILE` with settings and suppressions; default "+config.Name+" in the folder of the first PATH or above it, up to the repository's")
	fs.StringVar(&f.base, "base", "", "`REV` of the repository to compare versions with: a branch, a tag, a commit, or something like HEAD~1")
	fs.StringVar(&f.mirrors, "mirrors", "", "`FILE` with what is mirrored, as osm-gitops bundle -o mirrors writes it: whatever else is downloaded is a finding")
	fs.StringVar(&f.cluster, "cluster", "", "`FILE` with the key settings, as osm-gitops render has it: the flags of the controller, which are checked as well")
	fs.StringVar(&f.shellcheck, "shellcheck", "", "whether shellcheck reads the scripts: auto, if it is installed; require; off; default what the configuration says, else auto")
}

func (f *ruleFlags) check() error {
	if f.shellcheck != "" && !slices.Contains([]string{"auto", "require", "off"}, f.shellcheck) {
		return misusef("--shellcheck auto, --shellcheck require or --shellcheck off", "unknown value %q of --shellcheck", f.shellcheck)
	}
	return nil
}

// ruleRun is what a run looks for beside rendering.
type ruleRun struct {
	config     *config.Config
	folder     string // of the configuration
	shellcheck *shellcheck.Checker
	missing    []lint.MissingTool
	base       *versions.Comparison
	mirrored   lint.ProfileCheck // nil without --mirrors
	settings   []lint.Finding    // of --cluster
}

// prepare reads what the rules need before anything is rendered.
func (f *ruleFlags) prepare(ctx context.Context, paths []string, stderr io.Writer) (*ruleRun, error) {
	r := &ruleRun{}
	if err := r.readConfig(f.config, paths[0]); err != nil {
		return nil, err
	}
	if err := r.findShellcheck(f.shellcheck); err != nil {
		return nil, err
	}
	if f.mirrors != "" {
		text, err := readInput(f.mirrors, nil)
		if err != nil {
			return nil, fmt.Errorf("--mirrors: %w", err)
		}
		mirrors, err := downloads.ParseMirrors(f.mirrors, text)
		if err != nil {
			return nil, err
		}
		r.mirrored = mirrored.Check(mirrors, f.mirrors, r.config.Lint.Providers)
	}
	if f.cluster != "" {
		file, err := readClusterFile(f.cluster, nil)
		if err != nil {
			return nil, fmt.Errorf("--cluster: %w", err)
		}
		r.settings = lint.Settings(f.cluster, file.Settings, file.lines)
	}
	if f.base != "" {
		index := profile.Indexer{Check: lint.TemplateCheck(render.NewEngine()), Builtin: profile.Builtin()}
		base, err := versions.Read(ctx, &index, paths, f.base)
		if err != nil {
			return nil, err
		}
		r.base = &base
		if r.config.Pools != "" {
			folder := filepath.Join(r.folder, filepath.FromSlash(r.config.Pools))
			pools, err := poolsByProfile(ctx, folder, stderr)
			if err != nil {
				warn(stderr, fmt.Errorf("which pools use a profile is not known: pools: %w", err))
			} else {
				r.base.Pools = func(profile string) []string { return pools[profile] }
			}
		}
	}
	return r, nil
}

func (r *ruleRun) readConfig(path, first string) error {
	if path == "" {
		found, err := config.Find(first)
		if err != nil {
			return err
		}
		if found == "" {
			r.config = &config.Config{}
			return nil
		}
		path = relativeTo(".", found)
	}
	data, err := config.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--config: there is no file %s", path)
	}
	if err != nil {
		return err
	}
	r.folder = filepath.Dir(path)
	r.config, err = config.Parse(path, data, rulebook.All())
	return err
}

func (r *ruleRun) findShellcheck(mode string) error {
	if mode == "" {
		mode = r.config.Lint.Shellcheck
	}
	if mode == "off" {
		return nil
	}
	path := shellcheck.Find()
	switch {
	case path != "":
		r.shellcheck = &shellcheck.Checker{Path: path, Level: r.config.Lint.ShellcheckSeverity}
	case mode == "require":
		return fmt.Errorf("shellcheck is required and not installed: %s", shellcheck.Missing().Means)
	default:
		r.missing = append(r.missing, shellcheck.Missing())
	}
	return nil
}

// linter has the checks of the rules.
func (r *ruleRun) linter() lint.Linter {
	l := lint.Linter{TextChecks: []lint.TextCheck{shellrules.Check}, Kubelets: r.config.Lint.KubeletVersions}
	for _, p := range r.config.Lint.Providers {
		l.Providers = append(l.Providers, string(p))
	}
	if r.mirrored != nil {
		l.ProfileChecks = append(l.ProfileChecks, r.mirrored)
	}
	if r.shellcheck != nil {
		l.TextChecks = append(l.TextChecks, r.shellcheck.Check)
	}
	return l
}

// complete adds to a report what is found when all profiles are read, and applies the
// configuration.
func (r *ruleRun) complete(report *lint.Report) error {
	if r.shellcheck != nil {
		if err := r.shellcheck.Err(); err != nil {
			return err
		}
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
	report.Findings, report.Suppressed = r.config.Apply(report.Findings, time.Now(), func(path string) string { return relativeTo(r.folder, path) })
	return nil
}

// relativeTo is a path as seen from a folder, the path itself where there is no way.
func relativeTo(folder, path string) string {
	from, err := filepath.Abs(folder)
	if err != nil {
		return path
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return path
	}
	return rel
}
