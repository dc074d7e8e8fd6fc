package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs"
	"github.com/osm-gitops/osm-gitops/pkg/schema"
)

// completionGenerators returns, for each supported shell, the function that writes its completion
// script.
func completionGenerators() map[string]func(root *cobra.Command, out io.Writer) error {
	return map[string]func(root *cobra.Command, out io.Writer) error{
		"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
		"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	}
}

func newCompletionCommand() *cobra.Command {
	names := slices.Sorted(maps.Keys(completionGenerators()))
	return &cobra.Command{
		Use:   "completion " + strings.Join(names, "|"),
		Short: "print a shell script that completes this program's arguments",
		Long: `Print a shell script that completes commands, flags, and the values of flags. The shell
reads it when it starts; the script then calls osm-gitops, which reads names of objects
from the cluster for trace, verify, get, pin and other commands of daily operations.`,
		Example:   "  source <(osm-gitops completion bash)\n  osm-gitops completion zsh > ~/.zfunc/_osm-gitops\n  osm-gitops completion fish > ~/.config/fish/completions/osm-gitops.fish",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			hint := "osm-gitops completion " + strings.Join(names, "|")
			switch {
			case len(args) != 1:
				return cli.Misusef(hint, "name one shell")
			case completionGenerators()[args[0]] == nil:
				return cli.Misusef(hint, "unknown shell %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := completionGenerators()[args[0]](cmd.Root(), cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("writing the script: %w", err)
			}
			return nil
		},
	}
}

// fixedFlagValues returns the values of flags that have a fixed set, by command and flag.
func fixedFlagValues() map[string][]string {
	ci := []string{"github", "gitlab", "none"}
	ignition := []string{"3.3.0", "3.4.0", "2.3.0"}
	return map[string][]string{
		"controller container-runtime": {"containerd"},
		"controller ignition-version":  ignition,
		"controller log-format":        {"JSON", "Console"},
		"controller node-token":        {"bound", "shared"},
		"import ci":                    ci,
		"init ci":                      ci,
		"lint severity":                {"error", "warning", "note"},
		"lint shellcheck":              {"auto", "require", "off"},
		"render ignition-version":      ignition,
	}
}

// manifestFlags are the flags whose value is a YAML file or a folder of them.
var manifestFlags = []string{"cluster", "filename", "machine-deployment", "machine-deployments", "profile"}

// addCompletions registers completions for the flags and arguments of every command.
func addCompletions(root *cobra.Command) {
	valuesByFlag := fixedFlagValues()
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if complete := flagCompletion(valuesByFlag, cmd.Name(), f); complete != nil {
				// It fails only if the flag has a completion already, or does not exist.
				_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
			}
		})
		if cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = argumentCompletion(cmd.Name())
		}
	}
}

// flagCompletion completes the value of a flag. Nil stands for file names of any kind.
func flagCompletion(valuesByFlag map[string][]string, command string, f *pflag.Flag) cobra.CompletionFunc {
	if formats, ok := f.Value.(*cli.Formats); ok {
		return valueCompletion(formats.Names()...)
	}
	if values := valuesByFlag[command+" "+f.Name]; values != nil {
		return valueCompletion(values...)
	}
	switch placeholder, _ := pflag.UnquoteUsage(f); {
	case f.Name == "context":
		return completeContexts
	case command == "init" && f.Name == "system":
		return completeSystems
	case command == "init" && f.Name == "provider":
		return completeSupportedProviders
	case slices.Contains(manifestFlags, f.Name) && strings.HasPrefix(placeholder, "FILE") || f.Name == "machine-deployments":
		return cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	case placeholder == "FOLDER" || placeholder == "DIR" || strings.HasSuffix(f.Name, "-dir") || f.Name == "directory-root":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case placeholder == "FILE" || placeholder == "PATH-or-URL" || namesFile(f.Name):
		return nil
	}
	return cobra.NoFileCompletions
}

// namesFile reports whether a flag of the controller takes a file. The controller's usage
// texts have no placeholders, so its name decides.
func namesFile(flag string) bool {
	return flag == "audit-log" || strings.HasSuffix(flag, "kubeconfig") || strings.HasSuffix(flag, "-file") || strings.HasSuffix(flag, "-ca-bundle") || strings.HasPrefix(flag, "ui-tls-")
}

// argumentCompletion completes positional arguments. Nil stands for file names of any kind.
func argumentCompletion(command string) cobra.CompletionFunc {
	switch command {
	case "lint", "rebase-overlay", "help":
		return nil
	case "init":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case "schema":
		return completeFirstArgument(valueCompletion(strings.Split(schema.Names(), ", ")...))
	case "trace":
		return verbs.CompleteObject("node/", "machine/", "machinedeployment/", "nodeprovenance/", "osc/", "osp/", "secret/", "commit/")
	case "verify":
		return verbs.CompleteObject("node/", "machinedeployment/")
	}
	return cobra.NoFileCompletions
}

// valueCompletion offers fixed values. After one that ends in "=" the shell continues in the same
// word.
func valueCompletion(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if strings.HasPrefix(typed, "dir=") && slices.Contains(values, "dir=") {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeFirstArgument limits a completion to the first argument.
func completeFirstArgument(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// completeContexts offers the contexts of the kubeconfig that the command would read.
func completeContexts(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, _ = cmd.Flags().GetString("kubeconfig")
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// completeSystems offers the operating systems of the built-in profiles.
func completeSystems(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := builtinFiles(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return systemsOf(all), cobra.ShellCompDirectiveNoFileComp
}

// completeSupportedProviders offers the providers that the built-in profile of --system supports.
func completeSupportedProviders(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	system, _ := cmd.Flags().GetString("system")
	base, _, err := (&initFlags{system: system}).builtinProfile(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return providersOf(base), cobra.ShellCompDirectiveNoFileComp
}
