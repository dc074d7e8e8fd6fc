package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

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
apiServerToken, bootstrapToken, bootstrapKubeconfigSecretName, and for kubelets
below 1.29 the environment, secrets and configMaps that a cloudProviderSpec may
refer to). Every other key but "profile", which is ignored, is an error.

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
	file, clusterErr := readClusterFile(flags.cluster, stdin)
	in.Settings, in.Cluster = file.Settings, file.Cluster.Cluster
	md, mdErr := readMachineDeployment(flags.machineDeployment, stdin)
	if mdErr == nil {
		in.Pool, mdErr = file.pool(md)
	}
	docs, profileErr := readProfiles(flags.profile, stdin)
	if profileErr == nil && md != nil {
		var doc profile.Document
		if doc, profileErr = choose(docs, flags.profile, md.Annotations[api.AnnotationOSP]); profileErr == nil {
			in.Profile = profileOf(doc)
		}
	}
	return in, errors.Join(profileErr, mdErr, clusterErr)
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
