package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// diffFlags are the flags of `osm-gitops diff`.
type diffFlags struct {
	repo, path string
	pools      load.PoolFlags
	output     string
	exitCode   bool
}

const diffUsage = "osm-gitops diff BASE [HEAD] --machine-deployments DIR|--kubeconfig FILE|--snapshot FILE"

func newDiffCommand() *cobra.Command {
	var flags diffFlags
	cmd := &cobra.Command{
		Use:   "diff BASE [HEAD] [--machine-deployments DIR|--kubeconfig FILE|--snapshot FILE]",
		Short: "show the effect of a change of profiles on pools",
		Long: `Show the effect of a change of profiles on pools: what they get at HEAD, merged into
BASE, and do not get at BASE. BASE and HEAD are revisions of a Git repository; the default
of HEAD is the work tree, with uncommitted changes. Nothing is checked out.

The pools come from
  --machine-deployments DIR  manifests below a folder, with the settings of --cluster FILE
  --kubeconfig FILE          a cluster, read with your permissions; Secrets are not read
  --snapshot FILE            a file of osm-gitops snapshot, or the ConfigMap that the
                             controller publishes with --publish-snapshot
or, without any of these, from the folder that .osm-gitops.yaml names as pools.

The output contains no credentials: everything is rendered with placeholders.

The exit status is 0 even if pools differ, unless --exit-code is set: then it is 1. It is
1 if HEAD contains a file that would be rejected, if the configuration of a pool would be
rejected, which is printed nevertheless, or if something cannot be read. It is 2 for
misuse.`,
		Example: "  osm-gitops diff main\n  osm-gitops diff origin/main --machine-deployments clusters/prod --cluster cluster.yaml\n  osm-gitops diff origin/main HEAD --snapshot pools.json.gz -o markdown",
		Args:    func(_ *cobra.Command, args []string) error { return flags.setDefaultsAndCheck(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiff(cmd.Context(), flags, args, cli.NewEscapingWriter(cmd.OutOrStdout(), flags.output), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&flags.repo, "repo", ".", "`FOLDER` of the Git repository, or one inside its work tree")
	fs.StringVar(&flags.path, "path", "", "`FOLDER` of the profiles in the repository; default that of .osm-gitops.yaml, or the root")
	flags.pools.Bind(cmd)
	cli.BindOutput(fs, &flags.output, "text", "markdown", "json", "yaml")
	fs.BoolVar(&flags.exitCode, "exit-code", false, "exit with status 1 if pools or profiles differ")
	return cmd
}

func (f *diffFlags) setDefaultsAndCheck(args []string) error {
	switch {
	case len(args) == 0:
		return cli.Misusef(diffUsage, "BASE is missing: name the revision to compare with, such as origin/main")
	case len(args) > 2:
		return cli.Misusef(diffUsage, "unexpected argument %q", args[2])
	}
	d, err := load.DefaultsAt(f.repo, "")
	if err != nil {
		return err
	}
	if f.path == "" {
		if f.path, err = load.PathInRepository(f.repo, d.Profiles); err != nil {
			return err
		}
	}
	f.pools.SetDefault(d)
	return f.pools.Check(diffUsage)
}

// errRejected follows printed reasons for rejection; errDiffers is for --exit-code.
var (
	errRejected = errors.New("files or pools are rejected: see above")
	errDiffers  = errors.New("there are differences: see above")
)

func runDiff(ctx context.Context, f diffFlags, args []string, stdout, stderr io.Writer) error {
	fleet, err := f.pools.PoolSnapshot(ctx, stderr)
	if err != nil {
		return err
	}
	c := impact.Comparison{BaseName: args[0], Snapshot: fleet, Builtin: catalog.Builtin(), Engine: render.NewEngine()}
	c.Check = lint.TemplateCheck(c.Engine)
	if c.Base, err = (source.Repository{Dir: f.repo, Revision: args[0], Path: f.path}).Read(ctx); err != nil {
		return addFetchHint(err)
	}
	if len(args) == 2 {
		c.HeadName = args[1]
		c.Head, err = source.Repository{Dir: f.repo, Revision: args[1], Path: f.path}.Read(ctx)
	} else {
		c.HeadName = "the work tree"
		c.Head, err = f.workTree(ctx)
	}
	if err != nil {
		return addFetchHint(err)
	}
	if isBehind(ctx, c) {
		cli.Warn(stderr, fmt.Errorf("%s has commits that %s lacks, and their changes are shown as reverted: merge %s first, or compare with git merge-base", c.BaseName, c.HeadName, c.BaseName))
	}
	report, err := impact.Compare(ctx, c)
	if err != nil {
		return err
	}
	format, text := f.output, report.Text
	if format == "markdown" {
		format, text = "text", report.Markdown
	}
	if err := cli.Print(stdout, format, report, text); err != nil {
		return err
	}
	switch {
	case report.BlocksMerge():
		return errRejected
	case f.exitCode && report.Differs():
		return errDiffers
	}
	return nil
}

// isBehind reports whether the base has commits that the head lacks. It is false if the
// history is too short to decide.
func isBehind(ctx context.Context, c impact.Comparison) bool {
	if len(c.Base.Line) == 0 || len(c.Head.Line) == 0 {
		return false
	}
	contains, err := c.Head.Contains(ctx, c.Base.Head)
	return err == nil && !contains
}

// addFetchHint adds how to fetch a revision that a shallow clone lacks, as in many
// workflows.
func addFetchHint(err error) error {
	if errors.Is(err, source.ErrNotFound) {
		return fmt.Errorf("%w: in a shallow clone, fetch it first, with git fetch --unshallow, or fetch-depth: 0 of GitHub's checkout", err)
	}
	return err
}

// workTree reads the folders with uncommitted changes.
func (f *diffFlags) workTree(ctx context.Context) (*source.Snapshot, error) {
	full, err := filepath.Abs(f.repo)
	if err != nil {
		return nil, err
	}
	top := source.FindWorktree(full)
	if top == "" {
		return nil, cli.Misusef("osm-gitops diff BASE HEAD", "%s has no work tree: name HEAD", f.repo)
	}
	return source.Directory{Root: "/", Path: top, Sub: f.path}.Read(ctx)
}
