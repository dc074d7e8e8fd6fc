package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// importFlags are the flags of `osm-gitops import`.
type importFlags struct {
	from        clusters.Flags
	files       []string
	clusterFile string
	output      string
	repo        scaffoldFlags
}

func newImportCommand() *cobra.Command {
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:   "import [-f FILE|FOLDER|-]... [--to DIR] [-o text|json|yaml]",
		Short: "write the profiles of a cluster as a repository",
		Long: `Write the OperatingSystemProfiles of a cluster as a repository, and report the result for
each of them.

They are read from the cluster of a kubeconfig, together with the MachineDeployments
that use them, or with -f from manifests, as kubectl get osp,md -A -o yaml prints them.

Without --to nothing is written, and the report says what would be. The report names
each profile, why it became a copy, an overlay or nothing, which pools use it, and
everything that osm-gitops rejects although operating-system-manager accepts it. In that
case the exit status is 1; everything else is written nevertheless.

If ProfileSources created all profiles, there is nothing to import: the command says so,
writes nothing, and the exit status is 0.`,
		Example: `  osm-gitops import --kubeconfig ~/.kube/config --to osps --git
  kubectl get osp,md -A -o yaml | osm-gitops import -f - --to osps`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runImport(cmd.Context(), f, streams{cmd.InOrStdin(), cli.NewEscapingWriter(cmd.OutOrStdout(), f.output), cmd.ErrOrStderr()})
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.files, "filename", "f", nil, "`FILE` or folder with manifests instead of a cluster, - is standard input; repeatable")
	f.from.Bind(cmd)
	fs.StringVar(&f.clusterFile, "cluster", "", "cluster `FILE` of osm-gitops render, with the settings of the controller")
	cli.BindOutput(fs, &f.output, "text", "json", "yaml")
	f.repo.bind(fs)
	return cmd
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func runImport(ctx context.Context, f *importFlags, s streams) error {
	if err := f.check(); err != nil {
		return err
	}
	in := importer.Input{Namespace: f.repo.namespace}
	var err error
	if in.Builtin, err = builtinDocuments(ctx); err != nil {
		return err
	}
	if f.clusterFile != "" {
		file, err := load.ReadClusterFile(f.clusterFile, s.in)
		if err != nil {
			return err
		}
		file.PrintWarnings(s.err)
		in.Settings = &file.Settings
	}
	if in.Objects, err = f.readImportObjects(ctx, s.in); err != nil {
		return err
	}
	plan, err := importer.New(ctx, in)
	if err != nil {
		return err
	}
	if len(plan.Profiles) == 0 {
		return errors.New("no OperatingSystemProfile found: name another cluster, or files that contain some")
	}
	if plan.AllProfilesFromSources() {
		return printNothingToImport(s.out, plan.Report, f.output)
	}
	if err := f.repo.writeRepository(content{files: plan.Files, readme: importer.Readme(plan), message: "Import the profiles of a cluster"}, s.err); err != nil {
		return err
	}
	if err := printImport(s.out, plan.Report, f.output); err != nil {
		return err
	}
	if n := len(plan.Rejected); n > 0 {
		return fmt.Errorf("%d rejected, see above: fix them before osm-gitops takes over", n)
	}
	return nil
}

func (f *importFlags) check() error {
	if len(f.files) > 0 && f.from.IsSet() {
		return cli.Misusef("-f alone, or --kubeconfig", "-f reads manifests, and --kubeconfig, --context and --worker-cluster-kubeconfig a cluster")
	}
	stdin := 0
	for _, path := range append([]string{f.clusterFile}, f.files...) {
		if path == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return cli.Misusef("write the others to files", "only one file can be standard input")
	}
	return f.repo.check()
}

// builtinDocuments are the built-in profiles.
func builtinDocuments(ctx context.Context) ([]profile.Document, error) {
	files, err := builtinFiles(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]profile.Document, len(files))
	for i, f := range files {
		out[i] = f.Document
	}
	return out, nil
}

// readImportObjects reads the objects to import.
func (f *importFlags) readImportObjects(ctx context.Context, stdin io.Reader) ([]manifest.Object, error) {
	if len(f.files) == 0 {
		return f.listClusterObjects(ctx)
	}
	var out []manifest.Object
	for _, path := range f.files {
		paths, err := manifestFiles(path)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			found, err := readManifestFile(path, stdin)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// manifestFiles lists the files of a folder in order, or the file itself.
func manifestFiles(path string) ([]string, error) {
	if path == "-" || !load.IsFolder(path) {
		return []string{path}, nil
	}
	var out []string
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != path && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if ext := filepath.Ext(name); d.Type().IsRegular() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			out = append(out, name)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: contains no file that ends in .yaml, .yml or .json", path)
	}
	return out, err
}

func readManifestFile(path string, stdin io.Reader) ([]manifest.Object, error) {
	if path == "-" {
		return manifest.Read("standard input", stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return manifest.Read(path, file)
}

// listClusterObjects reads profiles and pools with the permissions of the current user, as they
// are stored, including fields that the schema lacks.
func (f *importFlags) listClusterObjects(ctx context.Context) ([]manifest.Object, error) {
	management, worker, err := f.from.Clients()
	if err != nil {
		return nil, err
	}
	profiles, err := listAll(ctx, management, osm.GroupVersion.WithKind("OperatingSystemProfileList"))
	if err != nil {
		return nil, err
	}
	pools, err := listAll(ctx, worker, cluster.GroupVersion.WithKind("MachineDeploymentList"))
	return append(profiles, pools...), err
}

// listAll reads all objects of a kind, as listKind names their list: OperatingSystemProfileList.
func listAll(ctx context.Context, from client.Reader, listKind schema.GroupVersionKind) ([]manifest.Object, error) {
	var out []manifest.Object
	empty := &unstructured.UnstructuredList{}
	empty.SetGroupVersionKind(listKind)
	for list, err := range kubeclient.Pages(ctx, from, empty) {
		if err != nil {
			return nil, fmt.Errorf("listing the %ss of the cluster: %w", strings.TrimSuffix(listKind.Kind, "List"), err)
		}
		for _, item := range list.Items {
			out = append(out, manifest.Object{From: "the cluster", Content: item.Object})
		}
	}
	return out, nil
}

// printNothingToImport reports that there is nothing to import. JSON and YAML omit the files,
// since none are written.
func printNothingToImport(w io.Writer, r importer.Report, form string) error {
	if form != "text" {
		return printImport(w, importer.Report{Profiles: r.Profiles, Rejected: []importer.RenderRejection{}, Notes: []importer.Note{}}, form)
	}
	sources := map[string]bool{}
	for _, o := range r.Profiles {
		sources[o.Source] = true
	}
	_, err := fmt.Fprintln(w, redact.RemoveControlChars(fmt.Sprintf("all %d profiles come from ProfileSources (%s): there is nothing to import, and nothing was written",
		len(r.Profiles), strings.Join(slices.Sorted(maps.Keys(sources)), ", "))))
	return err
}

func printImport(w io.Writer, r importer.Report, form string) error {
	if form != "text" {
		return cli.PrintData(w, form, r)
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "PROFILE\tVERSION\tKEPT\tFILE\tPOOLS")
	for _, o := range r.Profiles {
		pools := "-"
		if len(o.Pools) > 0 {
			pools = strings.Join(o.Pools, ", ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", o.Name, orDash(o.Version), o.Action, orDash(o.Path), pools)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(&b, "\nWhy:")
	for _, o := range r.Profiles {
		fmt.Fprintf(&b, "  %s: %s\n", o.Name, o.Why)
	}
	printCorrections(&b, r.Profiles)
	if len(r.Rejected) > 0 {
		fmt.Fprintln(&b, "\nRejected by osm-gitops, although operating-system-manager may accept it:")
	}
	for _, rejected := range r.Rejected {
		fmt.Fprintf(&b, "  %s\n", rejected)
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(&b, "\nTo know:")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", note)
	}
	// Objects can contain terminal control characters (security.md 28).
	_, err := io.WriteString(w, redact.RemoveControlChars(b.String()))
	return err
}

// printCorrections prints each difference between a written file and the object in the
// cluster.
func printCorrections(b *strings.Builder, profiles []importer.Outcome) {
	for _, o := range profiles {
		if len(o.Corrected) > 0 {
			fmt.Fprintf(b, "\nCorrected in %s, so that nodes get the same as with operating-system-manager:\n", o.Path)
		}
		for _, c := range o.Corrected {
			fmt.Fprintf(b, "  %s\n", c)
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
