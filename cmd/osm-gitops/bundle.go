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

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// bundleFlags are the flags of `osm-gitops bundle`.
type bundleFlags struct {
	machineDeployments, cluster, profile, output string

	repo repoFlags
}

const bundleUsage = "osm-gitops bundle --machine-deployments DIR --cluster FILE"

// bundleOutputs are the values of --output.
var bundleOutputs = map[string]func(downloads.List, io.Writer) error{
	"table": downloads.List.Table, "json": downloads.List.JSON, "mirrors": downloads.List.Mirrors,
}

func newBundleCommand() *cobra.Command {
	var flags bundleFlags
	cmd := &cobra.Command{
		Use:   "bundle --machine-deployments DIR --cluster FILE [--profile FILE|FOLDER | --repo PATH-or-URL] [-o table|json|mirrors]",
		Short: "list everything that the nodes of pools will download",
		Long: `List everything that the nodes of pools will download: files with their checksums,
packages and their repositories, container images. It is found in what is rendered
for each pool, by following the scripts without running them.

The profiles are those that the MachineDeployments name, and come from where
osm-gitops render takes them: --profile FILE or FOLDER, --repo with --revision and
--path, or this program.

-o mirrors writes the list that a plain downloader takes, and osm-gitops lint
--mirrors. What could not be found out is listed as unresolved, and said on standard
error.`,
		Example: "  osm-gitops bundle --machine-deployments clusters/prod --cluster cluster.yaml -o mirrors > mirrors.txt",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBundle(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&flags.machineDeployments, "machine-deployments", "", "`DIR` with manifests of MachineDeployments, or one file")
	fs.StringVar(&flags.cluster, "cluster", "", "`FILE` with the keys settings and cluster, as osm-gitops render has it")
	fs.StringVar(&flags.profile, "profile", "", "`FILE` or folder with the OperatingSystemProfiles; default the built-in ones")
	fs.StringVarP(&flags.output, "output", "o", "table", "what to print: table, json or mirrors")
	flags.repo.bind(fs)
	return cmd
}

func (f *bundleFlags) check() error {
	switch {
	case f.machineDeployments == "":
		return misusef(bundleUsage, "--machine-deployments is missing")
	case f.cluster == "":
		return misusef(bundleUsage, "--cluster is missing")
	case f.repo.location != "" && f.profile != "":
		return misusef("osm-gitops bundle --repo PATH-or-URL --path FOLDER", "--repo and --profile exclude each other: the MachineDeployments name their profiles")
	case bundleOutputs[f.output] == nil:
		return misusef("-o table, -o json or -o mirrors", "unknown output %q", f.output)
	case f.repo.location != "":
		return f.repo.checkLocation("osm-gitops bundle")
	}
	return f.repo.check()
}

func runBundle(ctx context.Context, flags bundleFlags, stdout, stderr io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	inputs, err := flags.inputs(ctx, stderr)
	if err != nil {
		return err
	}
	engine := render.NewEngine()
	var lists []downloads.List
	var errs []error
	for _, in := range inputs {
		list, err := downloads.Of(engine, in)
		lists, errs = append(lists, list), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	list := downloads.Merge(lists...)
	if n := len(list.Unresolved()); n > 0 {
		warn(stderr, fmt.Errorf("%d of %d items could not be found out: they are listed as unresolved, with what to do", n, len(list.Items)))
	}
	return bundleOutputs[flags.output](list, stdout)
}

// inputs reads the pools, and for each its profile.
func (f *bundleFlags) inputs(ctx context.Context, stderr io.Writer) ([]render.Input, error) {
	file, err := readClusterFile(f.cluster, nil)
	if err != nil {
		return nil, err
	}
	pools, err := readPools(f.machineDeployments)
	if err != nil {
		return nil, err
	}
	from := origin{flags: renderFlags{profile: f.profile, cluster: f.cluster, repo: f.repo}, engine: render.NewEngine(), stderr: &onceWriter{to: stderr, seen: map[string]bool{}}}
	type answer struct {
		profile render.Profile
		err     error
	}
	profiles := map[string]answer{}
	var out []render.Input
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		md := pools[name]
		in := render.Input{Settings: file.Settings, Cluster: file.Cluster.Cluster}
		if in.Settings.IgnitionVersion == render.DefaultIgnitionVersion {
			in.Settings.IgnitionVersion = ""
		}
		if in.Pool, err = file.pool(md); err != nil {
			errs = append(errs, err)
			continue
		}
		asked := md.Annotations[api.AnnotationOSP]
		p, ok := profiles[asked]
		if !ok {
			from.flags.machineDeployment = name
			p.profile, p.err = from.profile(ctx, md)
			profiles[asked] = p
			if p.err != nil { // the same for the next pool that asks for it
				errs = append(errs, fmt.Errorf("pool %s: %w", name, p.err))
			}
		}
		if p.err == nil {
			in.Profile = p.profile
			out = append(out, in)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: holds no MachineDeployment of apiVersion %s", strings.TrimSuffix(f.machineDeployments, "/"), cluster.GroupVersion)
	}
	return out, nil
}

// onceWriter writes a message once, however many pools it is about.
type onceWriter struct {
	to   io.Writer
	seen map[string]bool
}

func (w *onceWriter) Write(p []byte) (int, error) {
	if w.seen[string(p)] {
		return len(p), nil
	}
	w.seen[string(p)] = true
	return w.to.Write(p)
}
