package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/scaffold"
)

// initFlags are the flags of `osm-gitops init`.
type initFlags struct {
	profile, system, provider string
	full                      bool
	repo                      scaffoldFlags
}

// initKubelet is the kubelet of the example pool, the newest supported minor (contract:
// "Supported kubelet minors").
const initKubelet = "1.36.0"

func newInitCommand() *cobra.Command {
	f := &initFlags{}
	cmd := &cobra.Command{
		Use:   "init DIR [--system SYSTEM] [--profile NAME]",
		Short: "start a repository of profiles",
		Long: `Start a repository of profiles: a first profile based on a built-in one, a pool for
rendering, the ProfileSource with which a controller follows it, CI, and a README.

The result passes osm-gitops lint, and renders.`,
		Example: "  osm-gitops init osps --system ubuntu --profile osp-ubuntu-web --ci gitlab --git",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Misusef("osm-gitops init DIR", "name one folder for the repository")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.repo.to = args[0]
			return runInit(cmd.Context(), f, cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.system, "system", "ubuntu", "`SYSTEM` of the nodes: the name of a built-in profile without osp-")
	fs.StringVar(&f.profile, "profile", "", "`NAME` of the first profile; empty: osp-SYSTEM-own")
	fs.StringVar(&f.provider, "provider", "", "cloud `PROVIDER` of the example pool; empty: aws, or the first that the profile serves")
	fs.BoolVar(&f.full, "copy", false, "copy the built-in profile instead of writing an overlay on it")
	f.repo.bindRepository(fs)
	return cmd
}

func runInit(ctx context.Context, f *initFlags, stderr io.Writer) error {
	if err := f.repo.check(); err != nil {
		return err
	}
	start, err := f.resolveFirstProfile(ctx)
	if err != nil {
		return err
	}
	files, err := start.ProfileAndPoolFiles()
	if err != nil {
		return err
	}
	if err := f.repo.writeRepository(content{files: files, readme: start.Readme(), message: "Start a repository of profiles"}, stderr); err != nil {
		return err
	}
	next := []string{}
	if !f.repo.git {
		next = append(next, "git init -b main && git add . && git commit")
	}
	next = append(slices.Concat([]string{"osm-gitops lint"}, f.repo.unset, next), "push", "kubectl apply -f deploy/profilesource.yaml")
	fmt.Fprintf(stderr, "osm-gitops: next, in %s: %s\n", f.repo.to, strings.Join(next, "; "))
	return nil
}

// resolveFirstProfile resolves the first profile.
func (f *initFlags) resolveFirstProfile(ctx context.Context) (scaffold.StarterProfile, error) {
	base, text, err := f.builtinProfile(ctx)
	if err != nil {
		return scaffold.StarterProfile{}, err
	}
	name := f.profile
	if name == "" {
		name = base.Name + "-own"
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(name) > validation.LabelValueMaxLength {
		return scaffold.StarterProfile{}, cli.Misusef("--profile osp-ubuntu-web", "--profile: %q is not an object name of at most %d characters", name, validation.LabelValueMaxLength)
	}
	if name == base.Name {
		return scaffold.StarterProfile{}, cli.Misusef("--profile "+base.Name+"-own", "--profile: %q is the built-in profile: choose another name, to distinguish them", name)
	}
	provider, err := f.chooseProvider(base)
	if err != nil {
		return scaffold.StarterProfile{}, err
	}
	s := scaffold.StarterProfile{
		Profile: name, Base: base.Name, BaseVersion: base.Spec.Version, BaseText: text, Full: f.full, Stage: "provisioningConfig",
		Pool: scaffold.Pool{Name: "example", Profile: name, Provider: provider, System: string(base.Spec.OSName), Kubelet: initKubelet},
	}
	if len(base.Spec.ProvisioningConfig.Files) == 0 { // the provider cannot run cloud-init twice
		s.Stage = "bootstrapConfig"
	}
	if base.Spec.OSName == osm.OperatingSystemFlatcar {
		s.Pool.Utility = string(base.Spec.ProvisioningUtility)
	}
	return s, nil
}

// builtinProfile returns the built-in profile for --system, and its file.
func (f *initFlags) builtinProfile(ctx context.Context) (profile.Document, []byte, error) {
	all, err := builtinFiles(ctx)
	if err != nil {
		return profile.Document{}, nil, err
	}
	for _, d := range all {
		if d.Name == "osp-"+f.system {
			return d.Document, d.text, nil
		}
	}
	return profile.Document{}, nil, cli.Misusef("--system ubuntu", "--system: no built-in profile for %q: name one of %s", f.system, strings.Join(systemsOf(all), ", "))
}

// builtinFile is a built-in profile with its file.
type builtinFile struct {
	profile.Document

	text []byte
}

func builtinFiles(ctx context.Context) ([]builtinFile, error) {
	snap, err := catalog.Builtin().Read(ctx)
	if err != nil {
		return nil, err
	}
	var out []builtinFile
	for _, file := range snap.Files {
		docs, err := profile.Decode(file.Path, file.Data)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			out = append(out, builtinFile{d, file.Data})
		}
	}
	return out, nil
}

// systemsOf returns the values of --system, sorted.
func systemsOf(all []builtinFile) []string {
	systems := make([]string, 0, len(all))
	for _, d := range all {
		systems = append(systems, strings.TrimPrefix(d.Name, "osp-"))
	}
	slices.Sort(systems)
	return systems
}

// providersOf returns the values of --provider for a profile.
func providersOf(base profile.Document) []string {
	var names []string
	for _, p := range base.Spec.SupportedCloudProviders {
		names = append(names, string(p.Name))
	}
	return names
}

// chooseProvider returns the provider of the example pool.
func (f *initFlags) chooseProvider(base profile.Document) (string, error) {
	names := providersOf(base)
	switch {
	case f.provider != "" && !slices.Contains(names, f.provider):
		return "", cli.Misusef("--provider "+names[0], "--provider: %s does not serve %q: name one of %s", base.Name, f.provider, strings.Join(names, ", "))
	case f.provider != "":
		return f.provider, nil
	case slices.Contains(names, "aws"):
		return "aws", nil
	}
	return names[0], nil
}
