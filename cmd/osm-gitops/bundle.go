package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// bundleFlags are the flags of `osm-gitops bundle`.
type bundleFlags struct {
	profile, output string

	pools load.PoolFlags
	repo  load.RepoFlags
}

const bundleUsage = "osm-gitops bundle --machine-deployments DIR|--kubeconfig FILE|--snapshot FILE"

// bundleOutputs are the values of --output; table is a former name of text.
var bundleOutputs = map[string]func(downloads.List, io.Writer) error{
	"text": downloads.List.WriteTable, "json": downloads.List.WriteJSON, "yaml": listYAML, "mirrors": downloads.List.WriteMirrorList, "table": downloads.List.WriteTable,
}

func listYAML(list downloads.List, out io.Writer) error { return cli.PrintData(out, "yaml", list) }

func newBundleCommand() *cobra.Command {
	var flags bundleFlags
	cmd := &cobra.Command{
		Use:   "bundle [--machine-deployments DIR|--kubeconfig FILE|--snapshot FILE] [--profile FILE|FOLDER | --repo PATH-or-URL] [-o text|json|yaml|mirrors]",
		Short: "list everything that the nodes of pools will download",
		Long: `List everything that the nodes of pools will download: files with their checksums,
packages and their repositories, container images. The list is derived from the
rendering for each pool, by following the scripts without running them.

The pools come from
  --machine-deployments DIR  manifests below a folder, with the settings of --cluster FILE
  --kubeconfig FILE          a cluster, read with your permissions; Secrets are not read
  --snapshot FILE            a file of osm-gitops snapshot, or the ConfigMap that the
                             controller publishes with --publish-snapshot

Each pool gets its profile in its pinned version, as the controller would choose it. The
profiles come from the same places as for osm-gitops render: --profile FILE or FOLDER,
--repo with --revision and --path, or this program. If .osm-gitops.yaml names folders of
profiles and pools, those are the default.

-o mirrors writes the list for a simple downloader, and for osm-gitops lint --mirrors.
Items that could not be resolved are listed as such, with a warning on standard error.
A pool whose request cannot be satisfied is an error; the others are listed nevertheless.`,
		Example: "  osm-gitops bundle --machine-deployments clusters/prod --cluster cluster.yaml -o mirrors > mirrors.txt\n  osm-gitops bundle --snapshot prod.json.gz --repo . --path profiles",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBundle(cmd.Context(), flags, cmd.InOrStdin(), cli.NewEscapingWriter(cmd.OutOrStdout(), flags.output), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	flags.pools.Bind(cmd)
	fs.StringVar(&flags.profile, "profile", "", "`FILE` or folder of profiles; default that of .osm-gitops.yaml, or built-in")
	cli.BindOutput(fs, &flags.output, "text", "json", "yaml", "mirrors", "table")
	flags.repo.Bind(fs)
	return cmd
}

// applyDefaultsAndValidate sets the flags that the repository in the working directory implies,
// then rejects invalid combinations.
func (f *bundleFlags) applyDefaultsAndValidate() error {
	d, err := load.DefaultsAt(".", "")
	if err != nil {
		return err
	}
	f.pools.SetDefault(d)
	if f.profile == "" && f.repo.Location == "" {
		f.profile = d.Profiles
	}
	if err := f.pools.Check(bundleUsage); err != nil {
		return err
	}
	switch {
	case f.repo.Location != "" && f.profile != "":
		return cli.Misusef("osm-gitops bundle --repo PATH-or-URL --path FOLDER", "--repo and --profile exclude each other: the MachineDeployments name their profiles")
	case f.repo.Location != "":
		return f.repo.CheckLocation("osm-gitops bundle")
	}
	return f.repo.CheckForRender()
}

// errIncomplete says that some pools could not be resolved. A warning has named each of
// them.
var errIncomplete = errors.New("the list lacks downloads of these pools: see above")

func runBundle(ctx context.Context, flags bundleFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := flags.applyDefaultsAndValidate(); err != nil {
		return err
	}
	b := bundle{engine: render.NewEngine(), stdin: stdin, stderr: stderr, lists: map[string]downloads.List{}, wrong: map[string][]string{}}
	if err := b.collectDownloads(ctx, flags); err != nil {
		return err
	}
	list := downloads.Merge(slices.Collect(maps.Values(b.lists))...)
	if n := len(list.Unresolved()); n > 0 {
		cli.Warn(stderr, fmt.Errorf("%d of %d items could not be resolved: the list explains each of them", n, len(list.Items)))
	}
	byPool := func(x, y string) int { return strings.Compare(b.wrong[x][0], b.wrong[y][0]) }
	for _, text := range slices.SortedFunc(maps.Keys(b.wrong), byPool) {
		cli.Report(stderr, fmt.Errorf("%s: %s", poolsText(b.wrong[text]), text))
	}
	if len(b.lists) > 0 || len(b.wrong) == 0 {
		var text strings.Builder
		if err := bundleOutputs[flags.output](list, &text); err != nil {
			return err
		}
		shown := text.String()
		if flags.output != "json" && flags.output != "yaml" { // These escape control characters themselves.
			shown = redact.RemoveControlChars(shown)
		}
		if _, err := io.WriteString(stdout, shown); err != nil {
			return fmt.Errorf("writing the list: %w", err)
		}
	}
	if len(b.wrong) > 0 {
		return errIncomplete
	}
	return nil
}

// bundle gathers what pools download.
type bundle struct {
	engine *render.Engine
	stdin  io.Reader
	stderr io.Writer
	lists  map[string]downloads.List // by the content of pools, since many differ only in their names
	wrong  map[string][]string       // the pools with each error
}

// collectDownloads lists the downloads of every pool, and the errors of pools that cannot be
// rendered.
func (b *bundle) collectDownloads(ctx context.Context, flags bundleFlags) error {
	selection, done, err := flags.readSelection(ctx, b)
	if err != nil {
		return err
	}
	defer done()
	if selection.Clusters, err = flags.pools.PoolSnapshot(ctx, b.stderr); err != nil {
		return err
	}
	if len(selection.Clusters.Pools) == 0 {
		return fmt.Errorf("namespace %q of the controller: no pool found, that is, a MachineDeployment that names a profile", selection.Clusters.Namespace)
	}
	pools, rejected, err := selection.SelectVersions(ctx)
	if err != nil {
		return err
	}
	for _, r := range rejected {
		cli.Warn(b.stderr, r)
	}
	for _, p := range pools {
		if p.Note != "" {
			cli.Warn(b.stderr, fmt.Errorf("pool %s: %s", p.Pool, p.Note))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Err != nil || p.Alike != "" {
			b.addPoolDownloads(p, selection.Where)
		}
	}
	return nil
}

// addPoolDownloads adds the downloads of a pool to the lists or, if it cannot be rendered, records
// its error.
func (b *bundle) addPoolDownloads(p impact.Selected, where string) {
	var unknown *impact.UnknownProfileError
	switch {
	case errors.As(p.Err, &unknown):
		p.Err = load.UnknownProfile(unknown.Name, where, unknown.Existing)
		fallthrough
	case p.Err != nil:
		b.wrong[p.Err.Error()] = append(b.wrong[p.Err.Error()], p.Pool)
		return
	}
	// Pools that render alike have the same downloads.
	list, ok := b.lists[p.Alike]
	if !ok {
		var err error
		if list, err = downloads.FindWithPlaceholders(b.engine, p.Input); err != nil {
			b.wrong[err.Error()] = append(b.wrong[err.Error()], p.Pool)
			return
		}
	}
	b.lists[p.Alike] = list.WithPool(p.Pool)
}

// poolsText names the pools that have the same error.
func poolsText(pools []string) string {
	const most = 5
	if len(pools) == 1 {
		return "pool " + pools[0]
	}
	return "pools " + phrase.First(pools, most)
}

// readSelection reads the profiles. The caller calls done when it no longer needs the result.
func (f *bundleFlags) readSelection(ctx context.Context, b *bundle) (s impact.Selection, done func(), err error) {
	s = impact.Selection{Builtin: catalog.Builtin(), Check: lint.TemplateCheck(b.engine), Where: f.profile}
	done = func() {}
	switch {
	case f.repo.Location != "":
		if s.Snapshot, done, err = f.repo.Read(ctx); err == nil {
			s.Where = f.repo.DescribeRevision(s.Snapshot)
		}
	case f.profile == "":
		s.Where = load.BuiltinOnly
	case load.IsFolder(f.profile):
		s.Snapshot, err = load.Folder(ctx, f.profile)
	default:
		s.Documents, err = load.Origin{Profile: f.profile, Engine: b.engine, Stdin: b.stdin, Stderr: b.stderr}.FileProfiles(ctx)
	}
	return s, done, err
}
