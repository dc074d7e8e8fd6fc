package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/scaffold"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// initFlags are the flags of `osm-gitops init`.
type initFlags struct {
	profile, system, provider string
	full                      bool
	repo                      scaffoldFlags
}

// initKubelet is the kubelet of the example pool, the newest supported minor.
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
	name := cmp.Or(f.profile, base.Name+"-own")
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

// scaffoldFlags choose the destination and the content of a repository.
type scaffoldFlags struct {
	to         string
	git, force bool
	host       string
	url        string
	owners     string
	namespace  string
	unset      []string // values that the user still has to set in the files
}

func (f *scaffoldFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.to, "to", "", "`FOLDER` to write the repository to, new or empty")
	f.bindRepository(fs)
}

// bindRepository binds the flags that init shares.
func (f *scaffoldFlags) bindRepository(fs *pflag.FlagSet) {
	fs.BoolVar(&f.git, "git", false, "make the folder a Git repository, and commit to it")
	fs.BoolVar(&f.force, "force", false, "write to a folder that is not empty; no file is overwritten")
	fs.StringVar(&f.host, "ci", scaffold.GitHub, "`HOST` to write CI for: github, gitlab or none")
	fs.StringVar(&f.url, "url", "", "`URL` from which controllers fetch the repository, for the ProfileSource")
	fs.StringVar(&f.owners, "owners", "", "`OWNERS` who must approve changes, such as @example/platform: users, teams or addresses, separated by spaces")
	clusters.BindNamespace(fs, &f.namespace)
}

func (f *scaffoldFlags) check() error {
	if f.host != scaffold.GitHub && f.host != scaffold.GitLab && f.host != scaffold.NoCI {
		return cli.Misusef("--ci github, --ci gitlab or --ci none", "--ci: unknown host %q", f.host)
	}
	if len(validation.IsDNS1123Label(f.namespace)) > 0 {
		return cli.Misusef("--namespace kube-system", "--namespace: %q is not a namespace", f.namespace)
	}
	if strings.ContainsAny(f.owners, "\n\r") {
		return cli.Misusef("--owners @example/platform", "--owners: is more than one line")
	}
	if owner := scaffold.FirstInvalidOwner(f.host, f.owners); owner != "" {
		return cli.Misusef("--owners @example/platform", "--owners: %q is not an owner: the host would ignore the line, and no approval would be required: write @USER, @ORGANIZATION/TEAM or an address, separated by spaces", owner)
	}
	if f.url != "" && !api.IsGitURL(f.url) {
		// Not quoted: it can contain a password (security.md 14).
		return cli.Misusef("--url https://git.example.com/platform/osps.git; credentials belong into a Secret, named in spec.git.secretRef",
			"--url: must be https://host/path, ssh://user@host/path or user@host:path, without user or password, query, fragment, spaces or quotes")
	}
	if f.to == "" && (f.git || f.force) {
		return cli.Misusef("--to FOLDER", "--git and --force need a folder to write to: set --to")
	}
	return nil
}

// content is the content of a new repository.
type content struct {
	files   map[string][]byte
	readme  string
	message string // commit message
}

// writeRepository writes a repository if a folder is named, and prints the result.
func (f *scaffoldFlags) writeRepository(c content, stderr io.Writer) error {
	if f.to == "" {
		return nil
	}
	version, _ := buildVersion()
	files, err := scaffold.Repository{
		Files: c.files, Readme: c.readme, Host: f.host, URL: f.url, Namespace: f.namespace, Owners: f.owners, Version: version,
	}.All()
	if err != nil {
		return err
	}
	var author object.Signature
	if f.git {
		// Check everything before writing anything.
		full, err := filepath.Abs(f.to)
		if err != nil {
			return err
		}
		if source.FindWorktree(full) != "" {
			return fmt.Errorf("--git: %s is a Git repository already, or in one: leave --git out and commit there", f.to)
		}
		if author, err = scaffold.Author(time.Now()); err != nil {
			return err
		}
	}
	if err := scaffold.Write(f.to, files, f.force); err != nil {
		if errors.Is(err, scaffold.ErrNotEmpty) {
			return cli.Misusef("name a new folder; --force adds files and overwrites none", "%s: is not empty", f.to)
		}
		return err
	}
	fmt.Fprintf(stderr, "osm-gitops: wrote %d files to %s\n", len(files), f.to)
	f.unset = scaffold.RemainingSettings(files)
	if strings.HasPrefix(f.url, "http:") {
		cli.Warn(stderr, errors.New("--url: only a controller with --allow-insecure-git fetches over http, where an attacker on the network can replace the profile of every node: use https"))
	}
	if !f.git {
		return nil
	}
	commit, err := scaffold.InitAndCommit(f.to, files, c.message, author)
	if err == nil {
		fmt.Fprintf(stderr, "osm-gitops: committed %s to branch main of %s\n", commit, f.to)
	}
	return err
}
