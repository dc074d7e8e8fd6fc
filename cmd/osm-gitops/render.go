package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// renderFlags are the flags of `osm-gitops render`.
type renderFlags struct {
	profile, machineDeployment, cluster, output string

	ignitionVersion string
	watch           bool
	orBuiltin       bool // profile is a default and can name a built-in profile
	repo            load.RepoFlags
}

// toFolder is the prefix of an output that is a folder.
const toFolder = "dir="

func newRenderCommand() *cobra.Command {
	var flags renderFlags
	cmd := &cobra.Command{
		Use:   "render [--profile FILE|FOLDER | --repo PATH-or-URL] [--machine-deployment FILE] --cluster FILE [-o osc|json|bootstrap|provisioning|dir=PATH]",
		Short: "print what the nodes of a pool get from a profile",
		Long: `Print what the nodes of a pool get from a profile, exactly as the controller
would write it.

The profile comes from
  --profile FILE      a file; if it contains several profiles, the one that the
                      MachineDeployment's annotation names. The base of a
                      ProfileOverlay is in the same file, in a file next to it or in
                      their history, or built in; with --repo it is in the repository
  --profile FOLDER    all files below a folder, as a ProfileSource of that
                      directory reads them; the annotation chooses as well
  --repo PATH-or-URL  a Git repository at --revision REV, without a checkout, as a
                      ProfileSource of it reads it, folder --path; --profile NAME
                      chooses instead of the annotation
or, without these, from the folder that .osm-gitops.yaml names as profiles, otherwise from
the built-in profiles. The default of --machine-deployment is the only file in the folder
that .osm-gitops.yaml names as pools.

-o osc prints the OperatingSystemConfig, with placeholders for credentials.
-o bootstrap and -o provisioning print the user-data of the two stages, with the
credentials of the cluster file. -o dir=PATH writes all of that into a new folder,
and the files of both stages as a node has them.

The cluster file is YAML with two keys: "settings" has the controller's flags with
their names in camelCase, and "cluster" the facts of a cluster (server,
apiServerToken, bootstrapToken, bootstrapKubeconfigSecretName, and for kubelets
below 1.29 the environment, secrets and configMaps to which a cloudProviderSpec can
refer). Every other key except "profile", which is ignored, is an error.

--watch renders with placeholders for credentials, and again after each change of
the files: it prints the difference from the previous rendering, or the error.

A file called "-" is standard input.`,
		Example: "  osm-gitops render --profile profiles/osp-ubuntu.yaml --machine-deployment md.yaml --cluster cluster.yaml -o bootstrap",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRender(cmd.Context(), flags, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&flags.profile, "profile", "", "`FILE` or folder with the OperatingSystemProfile; with --repo its name")
	cmd.Flags().StringVar(&flags.machineDeployment, "machine-deployment", "", "`FILE` with a MachineDeployment")
	cmd.Flags().StringVar(&flags.cluster, "cluster", "", "`FILE` with the keys settings and cluster")
	cli.BindOutput(cmd.Flags(), &flags.output, "osc", "yaml", "json", "bootstrap", "provisioning", toFolder)
	cmd.Flags().StringVar(&flags.ignitionVersion, "ignition-version", "", "`VERSION` of the Ignition specification, in place of settings.ignitionVersion: 3.3.0, 3.4.0 or 2.3.0")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "render again after each change of the files, and show the difference")
	flags.repo.Bind(cmd.Flags())
	return cmd
}

func (f renderFlags) check() error {
	const usage = "osm-gitops render --profile FILE --machine-deployment FILE --cluster FILE"
	files := map[string]int{}
	for _, flag := range []struct{ name, value string }{{"--machine-deployment", f.machineDeployment}, {"--cluster", f.cluster}} {
		if flag.value == "" {
			return cli.Misusef(usage, "%s is missing", flag.name)
		}
		files[flag.value]++
	}
	if f.repo.Location == "" {
		files[f.profile]++
	} else if !load.IsProfileFile(f.profile) && (strings.ContainsAny(f.profile, `/\`) || f.profile == "-") {
		return load.NewProfileFileWithRepoError(f.profile)
	}
	if files["-"] > 1 {
		return cli.Misusef("write the others to files", "only one file can be standard input")
	}
	if err := f.checkWatch(); err != nil {
		return err
	}
	if err := f.repo.CheckForRender(); err != nil {
		return err
	}
	if f.output == toFolder {
		return cli.Misusef("-o dir=PATH", "the output names no folder")
	}
	return nil
}

func runRender(ctx context.Context, flags renderFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := flags.setDefaults(); err != nil {
		return err
	}
	if err := flags.check(); err != nil {
		return err
	}
	if flags.watch {
		return watchRender(ctx, flags, cli.NewEscapingWriter(stdout, ""), stderr)
	}
	engine := render.NewEngine()
	in, err := readRenderInput(ctx, flags, engine, stdin, stderr)
	if err != nil {
		return err
	}
	// Rendering stops at the first error in a template. The controller rejects a profile that
	// fails this check, even if its pools are not affected, so check it first.
	if err := engine.Check(in.Profile); err != nil {
		return err
	}
	out, err := engine.Render(in)
	if err != nil {
		return err
	}
	for _, finding := range in.Profile.Findings() {
		cli.Warn(stderr, finding)
	}
	text, err := selectOutput(in, out, flags.output)
	if err != nil {
		return err
	}
	if dir, ok := strings.CutPrefix(flags.output, toFolder); ok {
		node, err := engine.RenderNode(in)
		if err != nil {
			return err
		}
		files, err := writeTree(dir, text, out, node)
		if err == nil {
			fmt.Fprintf(stderr, "osm-gitops: wrote %d files of the node to %s, with the credentials of the cluster file: %s lists them\n", files, dir, filepath.Join(dir, indexFile))
		}
		return err
	}
	_, err = stdout.Write(text)
	return err
}

// readRenderInput reads profile, pool and cluster, and reports the errors of all three.
func readRenderInput(ctx context.Context, flags renderFlags, engine *render.Engine, stdin io.Reader, stderr io.Writer) (render.Input, error) {
	var in render.Input
	file, clusterErr := load.ReadClusterFile(flags.cluster, stdin)
	file.PrintWarnings(stderr)
	in.Settings, in.Cluster = file.Settings, file.Cluster.Cluster
	md, mdErr := load.MachineDeployment(flags.machineDeployment, stdin)
	if mdErr == nil {
		in.Pool, mdErr = file.DecodePool(md)
	}
	var profileErr error
	if md != nil {
		in.Profile, profileErr = load.Origin{
			Profile: flags.profile, OrBuiltin: flags.orBuiltin, Repo: flags.repo, MachineDeployment: flags.machineDeployment,
			Engine: engine, Stdin: stdin, Stderr: stderr,
		}.Read(ctx, md)
	} else if flags.repo.Location == "" && flags.profile != "" && !load.IsFolder(flags.profile) {
		_, profileErr = load.Contents(flags.profile, stdin)
	}
	if flags.ignitionVersion != "" {
		in.Settings.IgnitionVersion = flags.ignitionVersion
	}
	if in.Settings.IgnitionVersion == render.DefaultIgnitionVersion {
		in.Settings.IgnitionVersion = "" // as in the controller: an explicit default gives the same digest
	}
	return in, errors.Join(profileErr, mdErr, clusterErr)
}

// selectOutput returns the user data of the stage that --output names, or the whole
// OperatingSystemConfig as it would be applied.
func selectOutput(in render.Input, out *render.Output, output string) ([]byte, error) {
	switch output {
	case "bootstrap":
		return out.Bootstrap, nil
	case "provisioning":
		return out.Provisioning, nil
	}
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	}
	object := struct {
		APIVersion string                        `json:"apiVersion"`
		Kind       string                        `json:"kind"`
		Metadata   metadata                      `json:"metadata"`
		Spec       osm.OperatingSystemConfigSpec `json:"spec"`
	}{
		osm.GroupVersion.String(), "OperatingSystemConfig",
		metadata{in.Pool.Name + "-" + in.Pool.Namespace + "-config", in.Settings.Namespace}, out.OSC,
	}
	if output != "json" {
		output = "yaml"
	}
	var b bytes.Buffer
	if err := cli.PrintData(&b, output, object); err != nil {
		return nil, fmt.Errorf("encoding the OperatingSystemConfig: %w", err)
	}
	return b.Bytes(), nil
}

// onlyManifest returns the only manifest in a folder of pools.
func onlyManifest(folder string) (string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	const usage = "osm-gitops render --machine-deployment FILE"
	switch len(files) {
	case 0:
		return "", cli.Misusef(usage, "%s: found no file with a pool", folder)
	case 1:
		return files[0], nil
	}
	return "", cli.Misusef(usage, "--machine-deployment is missing: %s has several pools, %s", folder, strings.Join(files[:min(len(files), maxNamed)], ", "))
}

// maxNamed bounds the files that a message names.
const maxNamed = 10

// setDefaults uses the profiles and the pool of the configuration if no flag names others.
func (f *renderFlags) setDefaults() error {
	if f.machineDeployment != "" && (f.profile != "" || f.repo.Location != "") {
		return nil
	}
	d, err := load.DefaultsAt(".", "")
	if err != nil {
		return err
	}
	if f.machineDeployment == "" && d.Pools != "" {
		if f.machineDeployment, err = onlyManifest(d.Pools); err != nil {
			return err
		}
	}
	if f.profile == "" && f.repo.Location == "" && d.Profiles != "" {
		f.profile, f.orBuiltin = d.Profiles, true
	}
	return nil
}

// indexFile lists every file of a tree with mode and size.
const indexFile = "index.txt"

// treeFile is a file to write, with its path relative to the folder.
type treeFile struct {
	path    string
	mode    fs.FileMode
	content []byte
	node    string // path on the node, for the index
	special string // special mode bits, listed in the index but not set here
}

// writeTree writes the files of a node into a folder:
//
//	osc.yaml                        the OperatingSystemConfig
//	bootstrap.user-data, bootstrap/ the first stage's document, and the node's files
//	provisioning.user-data, ...     the second's
//	index.txt                       each file with mode and size, and the units
//
// Paths come from a profile, which is untrusted: nothing is written outside the folder.
func writeTree(dir string, osc []byte, out *render.Output, node *render.Node) (files int, err error) {
	var list []treeFile
	var index strings.Builder
	for _, s := range []struct {
		name     string
		document []byte
		stage    render.NodeStage
	}{{"bootstrap", out.Bootstrap, node.Bootstrap}, {"provisioning", out.Provisioning, node.Provisioning}} {
		stage, err := assignPaths(s.name, s.stage.Files)
		if err != nil {
			return 0, err
		}
		writeStageIndex(&index, s.name, stage, s.stage.Units)
		list = append(list, treeFile{path: s.name + ".user-data", mode: 0o600, content: s.document})
		list = append(list, stage...)
	}
	files = len(list) - 2
	list = append(list, treeFile{path: "osc.yaml", mode: 0o600, content: osc}, treeFile{path: indexFile, mode: 0o600, content: []byte(index.String())})
	root, err := openEmptyFolder(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	for _, stage := range []string{"bootstrap", "provisioning"} {
		if err := root.Mkdir(stage, 0o700); err != nil {
			return 0, fmt.Errorf("writing %s: %w", dir, err)
		}
	}
	for _, f := range list {
		if err := f.write(root); err != nil {
			return 0, fmt.Errorf("writing %s: %w", dir, err)
		}
	}
	return files, nil
}

// assignPaths assigns paths to the files of a stage. As on a node, the last of several files
// with one path wins, and a file whose path is the folder of another is an error.
func assignPaths(stage string, files []render.NodeFile) ([]treeFile, error) {
	var list []treeFile
	at := map[string]int{}
	for _, f := range files {
		name := path.Clean("/" + f.Path)
		if name == "/" || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("%s: %q is not a valid file path", stage, f.Path)
		}
		file := treeFile{path: stage + name, mode: fs.FileMode(f.Mode & 0o777), content: []byte(f.Content), node: name}
		if f.Mode&^0o777 != 0 {
			file.special = fmt.Sprintf("%04o", f.Mode)
		}
		if i, ok := at[name]; ok {
			list[i] = file
			continue
		}
		at[name] = len(list)
		list = append(list, file)
	}
	for _, f := range list {
		for above := path.Dir(f.node); above != "/"; above = path.Dir(above) {
			if _, ok := at[above]; ok {
				return nil, fmt.Errorf("%s: %q cannot be written: %q is also a file", stage, f.node, above)
			}
		}
	}
	return list, nil
}

// writeStageIndex adds a stage to the index.
func writeStageIndex(index *strings.Builder, stage string, files []treeFile, units []render.NodeUnit) {
	fmt.Fprintf(index, "%s: mode, bytes, path on the node\n", stage)
	for _, f := range files {
		mode := f.special
		if mode == "" {
			mode = fmt.Sprintf("%04o", f.mode)
		}
		fmt.Fprintf(index, "  %s %8d %s\n", mode, len(f.content), quotePath(f.node))
	}
	if len(units) > 0 {
		fmt.Fprintf(index, "%s: units\n", stage)
	}
	for _, u := range units {
		state := "present"
		switch {
		case u.Masked:
			state = "masked"
		case u.Enabled:
			state = "enabled"
		}
		fmt.Fprintf(index, "  %-8s %s\n", state, u.Name)
	}
}

// quotePath escapes a path so that it stays on one line.
func quotePath(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// openEmptyFolder creates a folder that only its owner can enter, or opens an empty one.
func openEmptyFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	// With a root, a symlink in the folder cannot lead out of it.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	err = func() error {
		f, err := root.Open(".")
		if err != nil {
			return err
		}
		defer f.Close()
		if names, err := f.Readdirnames(1); !errors.Is(err, io.EOF) {
			return errors.Join(err, fmt.Errorf("it already contains %q: name a new folder, or an empty one", strings.Join(names, "")))
		}
		// An existing folder can be open to other users.
		return f.Chmod(0o700)
	}()
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("writing into %s: %w", dir, err)
	}
	return root, nil
}

// write creates a file and its parent folders.
func (f treeFile) write(root *os.Root) error {
	if err := root.MkdirAll(path.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := root.WriteFile(f.path, f.content, 0o600); err != nil {
		return err
	}
	return root.Chmod(f.path, f.mode)
}

func (f renderFlags) checkWatch() error {
	const hint = "osm-gitops render --watch --profile FILE --machine-deployment FILE --cluster FILE"
	switch {
	case !f.watch:
		return nil
	case f.repo.Location != "":
		return cli.Misusef(hint, "--watch is for files: commits, which --repo reads, do not change")
	case slices.Contains([]string{f.profile, f.machineDeployment, f.cluster}, "-"):
		return cli.Misusef(hint, "--watch is for files: standard input cannot be read again")
	case strings.HasPrefix(f.output, toFolder):
		return cli.Misusef("-o osc, -o bootstrap or -o provisioning", "--watch shows the differences of one document, and cannot write a folder")
	}
	return nil
}

// watchRender renders after each change of a file and shows the difference, until the
// context ends. It renders with placeholders, so the screen shows no credentials.
func watchRender(ctx context.Context, flags renderFlags, stdout, stderr io.Writer) error {
	changed := make(chan struct{}, 1)
	end, err := watchFiles(flags, func(context.Context) {
		select {
		case changed <- struct{}{}:
		default: // one is pending
		}
	})
	if err != nil {
		return err
	}
	defer end()
	r := renderDiffPrinter{flags: flags, engine: render.NewEngine(), stdout: stdout, stderr: stderr}
	if err := r.renderOnce(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "osm-gitops: watching, with placeholders for credentials; press Ctrl-C to stop")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if err := r.renderOnce(ctx); err != nil {
			return err
		}
	}
}

// renderDiffPrinter renders again and prints what has changed since the previous rendering.
type renderDiffPrinter struct {
	flags          renderFlags
	engine         *render.Engine
	stdout, stderr io.Writer
	last           []byte // nil before the first rendering
	lastErrors     string // last output on standard error
	broken         bool
}

// renderOnce renders once and prints the difference. It returns only errors of writing: an error in
// a file is printed, and the next save can fix it.
func (r *renderDiffPrinter) renderOnce(ctx context.Context) error {
	var messages bytes.Buffer
	out, err := r.render(ctx, &messages)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // interrupted, not an error
	}
	if err != nil {
		cli.Report(&messages, err)
	}
	if text := messages.String(); text != r.lastErrors {
		r.lastErrors = text
		if _, err := io.WriteString(r.stderr, text); err != nil {
			return err
		}
	}
	if err != nil {
		r.broken = true
		return nil //nolint:nilerr // printed above; the next save can fix it
	}
	was := r.last
	r.last = out
	switch {
	case was == nil:
		_, err = r.stdout.Write(out)
	case !bytes.Equal(was, out):
		_, err = r.stdout.Write(diff.Diff("before", was, "after", out))
	case r.broken:
		fmt.Fprintln(r.stderr, "osm-gitops: rendered again, without a difference")
	}
	r.broken = false
	return err
}

func (r *renderDiffPrinter) render(ctx context.Context, stderr io.Writer) ([]byte, error) {
	in, err := readRenderInput(ctx, r.flags, r.engine, nil, stderr)
	if err != nil {
		return nil, err
	}
	in, _ = in.ReplaceSecrets()
	if err := r.engine.Check(in.Profile); err != nil {
		return nil, err
	}
	out, err := r.engine.Render(in)
	if err != nil {
		return nil, err
	}
	for _, finding := range in.Profile.Findings() {
		cli.Warn(stderr, finding)
	}
	return selectOutput(in, out, r.flags.output)
}

// watchFiles watches the files of the flags, with any way of saving. For a profile, every file in the
// folder counts, since the base of an overlay can be there. The returned function ends the watch.
func watchFiles(flags renderFlags, changed func(context.Context)) (end func(), err error) {
	var files []string
	profile := ""
	for _, name := range []string{flags.profile, flags.machineDeployment, flags.cluster} {
		if name == "" {
			continue
		}
		full, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", name, err)
		}
		if name == flags.profile {
			profile = full
		}
		files = append(files, full)
	}
	if load.IsFolder(profile) {
		folder := source.Directory{Root: "/", Path: profile}.Watch(changed)
		others := source.WatchFiles(files[1:], "", changed)
		return func() { folder.Close(); others.Close() }, nil
	}
	folder := ""
	if profile != "" {
		folder = filepath.Dir(profile)
	}
	return source.WatchFiles(files, folder, changed).Close, nil
}
