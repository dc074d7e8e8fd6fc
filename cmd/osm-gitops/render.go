package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// renderFlags are the flags of `osm-gitops render`.
type renderFlags struct {
	profile, machineDeployment, cluster, output string

	ignitionVersion string
	watch           bool
	orBuiltin       bool // profile is a default, and a built-in profile may be meant
	repo            repoFlags
}

// toFolder begins the output that is a folder.
const toFolder = "dir="

func newRenderCommand() *cobra.Command {
	var flags renderFlags
	cmd := &cobra.Command{
		Use:   "render [--profile FILE|FOLDER | --repo PATH-or-URL] [--machine-deployment FILE] --cluster FILE [-o osc|bootstrap|provisioning|dir=PATH]",
		Short: "print what the nodes of a pool get from a profile",
		Long: `Print what the nodes of a pool get from a profile, exactly as the controller
would write it.

The profile comes from
  --profile FILE      a file; of several profiles in it the one that the
                      MachineDeployment's annotation names. The base of a
                      ProfileOverlay is in the same file, in a file beside it or in
                      their history, or built in; with --repo it is in the repository
  --profile FOLDER    all files below a folder, as a ProfileSource of that
                      directory reads them; again the annotation chooses
  --repo PATH-or-URL  a Git repository at --revision REV, without a checkout, as a
                      ProfileSource of it reads it, folder --path; --profile NAME
                      chooses in place of the annotation
or, with neither, from the folder that .osm-gitops.yaml names as profiles, else from
the built-in profiles. Without --machine-deployment it is the one file in the folder that
.osm-gitops.yaml names as pools.

-o osc prints the OperatingSystemConfig, with placeholders for credentials.
-o bootstrap and -o provisioning print the user-data of the two stages, with the
credentials of the cluster file. -o dir=PATH writes all of that into a new folder,
and the files of both stages as a node has them.

The cluster file is YAML with two keys: "settings", the controller's flags by
their names in camelCase, and "cluster", what differs between clusters (server,
apiServerToken, bootstrapToken, bootstrapKubeconfigSecretName, and for kubelets
below 1.29 the environment, secrets and configMaps that a cloudProviderSpec may
refer to). Every other key but "profile", which is ignored, is an error.

--watch renders with placeholders for credentials, and again whenever one of the
files is saved: it shows the difference to the rendering before, or the mistake.

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
	cmd.Flags().StringVarP(&flags.output, "output", "o", "osc", "what to print: osc, bootstrap or provisioning; or dir=PATH, a folder to write")
	cmd.Flags().StringVar(&flags.ignitionVersion, "ignition-version", "", "`VERSION` of the Ignition specification, in place of settings.ignitionVersion: 3.3.0, 3.4.0 or 2.3.0")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "render again whenever one of the files changes, and show what that changes")
	flags.repo.bind(cmd.Flags())
	return cmd
}

func (f renderFlags) check() error {
	const usage = "osm-gitops render --profile FILE --machine-deployment FILE --cluster FILE"
	files := map[string]int{}
	for _, flag := range []struct{ name, value string }{{"--machine-deployment", f.machineDeployment}, {"--cluster", f.cluster}} {
		if flag.value == "" {
			return misusef(usage, "%s is missing", flag.name)
		}
		files[flag.value]++
	}
	if f.repo.location == "" {
		files[f.profile]++
	} else if !isProfileFile(f.profile) && (strings.ContainsAny(f.profile, `/\`) || f.profile == "-") {
		return notInRepository(f.profile)
	}
	if files["-"] > 1 {
		return misusef("write the others to files", "only one file can be standard input")
	}
	if err := f.checkWatch(); err != nil {
		return err
	}
	if err := f.repo.check(); err != nil {
		return err
	}
	switch f.output {
	case "osc", "bootstrap", "provisioning":
		return nil
	case toFolder:
		return misusef("-o dir=PATH", "the output names no folder")
	}
	if strings.HasPrefix(f.output, toFolder) {
		return nil
	}
	return misusef("-o osc, -o bootstrap, -o provisioning or -o dir=PATH", "unknown output %q", f.output)
}

// notInRepository: only an overlay may be a file beside a repository, that of its base.
func notInRepository(file string) error {
	return misusef("osm-gitops render --repo PATH-or-URL --path FOLDER --profile NAME", "with --repo, --profile is the name of a profile in the repository, not a file: %q", file)
}

func isProfileFile(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

func runRender(ctx context.Context, flags renderFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := flags.setDefaults(); err != nil {
		return err
	}
	if err := flags.check(); err != nil {
		return err
	}
	if flags.watch {
		return watchRender(ctx, flags, shown(stdout, ""), stderr)
	}
	engine := render.NewEngine()
	in, err := readRenderInput(ctx, origin{flags: flags, engine: engine, stdin: stdin, stderr: stderr})
	if err != nil {
		return err
	}
	// Rendering ends at the first mistake in a template; the controller takes no
	// profile that does not pass this, whether its pools would notice or not.
	if err := engine.Check(in.Profile); err != nil {
		return err
	}
	out, err := engine.Render(in)
	if err != nil {
		return err
	}
	for _, finding := range in.Profile.Findings() {
		warn(stderr, finding)
	}
	osc, err := oscYAML(in, out.OSC)
	if err != nil {
		return err
	}
	if dir, ok := strings.CutPrefix(flags.output, toFolder); ok {
		node, err := engine.Node(in)
		if err != nil {
			return err
		}
		files, err := writeTree(dir, osc, out, node)
		if err == nil {
			fmt.Fprintf(stderr, "osm-gitops: wrote %d files of the node to %s, with the credentials of the cluster file: %s lists them\n", files, dir, filepath.Join(dir, indexFile))
		}
		return err
	}
	_, err = stdout.Write(map[string][]byte{"osc": osc, "bootstrap": out.Bootstrap, "provisioning": out.Provisioning}[flags.output])
	return err
}

// readRenderInput reads profile, pool and cluster, and reports what is wrong with
// each.
func readRenderInput(ctx context.Context, from origin) (render.Input, error) {
	var in render.Input
	flags, stdin := from.flags, from.stdin
	file, clusterErr := readClusterFile(flags.cluster, stdin)
	file.warn(from.stderr)
	in.Settings, in.Cluster = file.Settings, file.Cluster.Cluster
	md, mdErr := readMachineDeployment(flags.machineDeployment, stdin)
	if mdErr == nil {
		in.Pool, mdErr = file.pool(md)
	}
	var profileErr error
	if md != nil {
		in.Profile, profileErr = from.profile(ctx, md)
	} else if flags.repo.location == "" && flags.profile != "" && !isFolder(flags.profile) {
		_, profileErr = readContents(flags.profile, stdin)
	}
	if flags.ignitionVersion != "" {
		in.Settings.IgnitionVersion = flags.ignitionVersion
	}
	if in.Settings.IgnitionVersion == render.DefaultIgnitionVersion {
		in.Settings.IgnitionVersion = "" // as the controller has it: the same digest, written or not
	}
	return in, errors.Join(profileErr, mdErr, clusterErr)
}

// oscYAML is the whole object, as it would be applied.
func oscYAML(in render.Input, spec osm.OperatingSystemConfigSpec) ([]byte, error) {
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	}
	b, err := runnerlog.YAML(struct {
		APIVersion string                        `json:"apiVersion"`
		Kind       string                        `json:"kind"`
		Metadata   metadata                      `json:"metadata"`
		Spec       osm.OperatingSystemConfigSpec `json:"spec"`
	}{
		osm.GroupVersion.String(), "OperatingSystemConfig",
		metadata{in.Pool.Name + "-" + in.Pool.Namespace + "-config", in.Settings.Namespace}, spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the OperatingSystemConfig: %w", err)
	}
	return b, nil
}
