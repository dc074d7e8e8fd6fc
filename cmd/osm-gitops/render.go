package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// maxInputBytes bounds each file a command reads.
const maxInputBytes = 2 << 20 // 2 MiB

// renderFlags are the flags of `osm-gitops render`.
type renderFlags struct {
	profile, machineDeployment, cluster, output string
}

func newRenderCommand() *cobra.Command {
	var flags renderFlags
	cmd := &cobra.Command{
		Use:   "render --profile FILE --machine-deployment FILE --cluster FILE [-o osc|bootstrap|provisioning]",
		Short: "print what the nodes of a pool get from a profile",
		Long: `Print what the nodes of a pool get from a profile, exactly as the controller
would write it.

-o osc prints the OperatingSystemConfig, with placeholders for credentials.
-o bootstrap and -o provisioning print the user-data of the two stages, with the
credentials of the cluster file.

The cluster file is YAML with two keys: "settings", the controller's flags by
their names in camelCase, and "cluster", what differs between clusters (server,
apiServerToken, bootstrapToken, bootstrapKubeconfigSecretName). Every other key
but "profile", which is ignored, is an error.

A file called "-" is standard input.`,
		Example: "  osm-gitops render --profile profiles/osp-ubuntu.yaml --machine-deployment md.yaml --cluster cluster.yaml -o bootstrap",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRender(flags, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&flags.profile, "profile", "", "`FILE` with an OperatingSystemProfile")
	cmd.Flags().StringVar(&flags.machineDeployment, "machine-deployment", "", "`FILE` with a MachineDeployment")
	cmd.Flags().StringVar(&flags.cluster, "cluster", "", "`FILE` with the keys settings and cluster")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "osc", "what to print: osc, bootstrap or provisioning")
	return cmd
}

func (f renderFlags) check() error {
	const usage = "osm-gitops render --profile FILE --machine-deployment FILE --cluster FILE"
	files := map[string]int{}
	for _, flag := range []struct{ name, value string }{
		{"--profile", f.profile}, {"--machine-deployment", f.machineDeployment}, {"--cluster", f.cluster},
	} {
		if flag.value == "" {
			return misusef(usage, "%s is missing", flag.name)
		}
		files[flag.value]++
	}
	if files["-"] > 1 {
		return misusef("write the others to files", "only one file can be standard input")
	}
	switch f.output {
	case "osc", "bootstrap", "provisioning":
		return nil
	}
	return misusef("-o osc, -o bootstrap or -o provisioning", "unknown output %q", f.output)
}

func runRender(flags renderFlags, stdin io.Reader, stdout io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	in, err := readRenderInput(flags, stdin)
	if err != nil {
		return err
	}
	engine := render.NewEngine()
	// Rendering ends at the first mistake in a template; the controller takes no
	// profile that does not pass this, whether its pools would notice or not.
	if err := engine.Check(in.Profile); err != nil {
		return err
	}
	out, err := engine.Render(in)
	if err != nil {
		return err
	}
	switch flags.output {
	case "bootstrap":
		_, err = stdout.Write(out.Bootstrap)
	case "provisioning":
		_, err = stdout.Write(out.Provisioning)
	default:
		err = printOSC(stdout, in, out.OSC)
	}
	return err
}

// readRenderInput reads all three files, and reports what is wrong with each.
func readRenderInput(flags renderFlags, stdin io.Reader) (render.Input, error) {
	var in render.Input
	md, mdErr := readMachineDeployment(flags.machineDeployment, stdin)
	if mdErr == nil {
		in.Pool, mdErr = render.DecodePool(md)
	}
	docs, profileErr := readProfiles(flags.profile, stdin)
	if profileErr == nil && md != nil {
		var doc profile.Document
		if doc, profileErr = choose(docs, flags.profile, md.Annotations[api.AnnotationOSP]); profileErr == nil {
			in.Profile = profileOf(doc)
		}
	}
	var clusterErr error
	in.Settings, in.Cluster, clusterErr = readClusterFile(flags.cluster, stdin)
	return in, errors.Join(profileErr, mdErr, clusterErr)
}

// profileOf makes a profile of a file that no repository is known of.
func profileOf(doc profile.Document) render.Profile {
	return render.Profile{
		Spec: doc.Spec, Object: doc.Name, Digest: doc.Digest,
		Provenance: render.Provenance{Profile: doc.Name, Version: doc.Spec.Version},
		File:       doc.Path, Lines: doc.Line,
	}
}

func readProfiles(path string, stdin io.Reader) ([]profile.Document, error) {
	b, err := readInput(path, stdin)
	if err != nil {
		return nil, err
	}
	docs, err := profile.Decode(path, b)
	if err == nil && len(docs) == 0 {
		err = fmt.Errorf("%s: holds no OperatingSystemProfile", path)
	}
	return docs, err
}

// choose takes the pool's profile out of a file with several.
func choose(docs []profile.Document, path, name string) (profile.Document, error) {
	if len(docs) == 1 {
		return docs[0], nil
	}
	var names []string
	for _, d := range docs {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return profile.Document{}, fmt.Errorf("%s: holds the profiles %s, but the MachineDeployment's annotation %s names %q",
		path, strings.Join(names, ", "), api.AnnotationOSP, name)
}

func readMachineDeployment(path string, stdin io.Reader) (*cluster.MachineDeployment, error) {
	b, err := readInput(path, stdin)
	if err != nil {
		return nil, err
	}
	md := &cluster.MachineDeployment{}
	if err := yaml.Unmarshal(b, md); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if md.Kind != "MachineDeployment" || md.APIVersion != cluster.GroupVersion.String() {
		return nil, fmt.Errorf("%s: is no MachineDeployment: apiVersion %q and kind %q stand where %q and %q belong",
			path, md.APIVersion, md.Kind, cluster.GroupVersion.String(), "MachineDeployment")
	}
	return md, nil
}

// readInput reads a file, or standard input for "-".
func readInput(path string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxInputBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(b) > maxInputBytes {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxInputBytes)
	}
	return b, nil
}

// printOSC prints the whole object, as it would be applied.
func printOSC(stdout io.Writer, in render.Input, spec osm.OperatingSystemConfigSpec) error {
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	}
	b, err := yaml.Marshal(struct {
		APIVersion string                        `json:"apiVersion"`
		Kind       string                        `json:"kind"`
		Metadata   metadata                      `json:"metadata"`
		Spec       osm.OperatingSystemConfigSpec `json:"spec"`
	}{
		osm.GroupVersion.String(), "OperatingSystemConfig",
		metadata{in.Pool.Name + "-" + in.Pool.Namespace + "-config", in.Settings.Namespace}, spec,
	})
	if err != nil {
		return fmt.Errorf("encoding the OperatingSystemConfig: %w", err)
	}
	_, err = stdout.Write(b)
	return err
}
