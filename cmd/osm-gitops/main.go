// Command osm-gitops delivers operating system profiles from Git to Kubernetes nodes.
//
// Each verb has its own file. Data goes to standard output, everything else to standard
// error. The exit status is 0 for success, 1 for a failure or findings, 2 for misuse, and 3
// if verify needs another release.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs"
)

// Exit statuses.
const (
	exitOK           = 0
	exitFailure      = 1
	exitMisuse       = 2
	exitOtherRelease = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run executes the program; args[0] is the name by which it was called. It never exits.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	name := displayNameFor(args[0])
	root, arguments := newRoot(), normalizeControllerDashes(args[1:])
	if program := newOSMCommandForArgv0(args[0]); program != nil {
		root, arguments = program, toDoubleDashes(args[1:])
	}
	setDisplayName(root, name)
	root.SetArgs(arguments)
	root.SetIn(stdin)
	screen := cli.NewScreen(stdout, stderr)
	defer screen.Close()
	root.SetOut(screen.Stdout)
	stderr = cli.NewEscapingWriter(screen.Stderr, "")
	root.SetErr(stderr)
	addScreenFlag(root, screen)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var misuse *cli.MisuseError
	if !errors.As(err, &misuse) {
		cli.Report(stderr, err)
		if other, ok := errors.AsType[*statusError](err); ok {
			return other.status
		}
		return exitFailure
	}
	cli.Report(stderr, misuse.Err)
	hint := cmp.Or(misuse.Hint, "see osm-gitops --help")
	fmt.Fprintf(stderr, "osm-gitops: hint: %s\n", replaceProgramName(name, hint))
	return exitMisuse
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "osm-gitops",
		Short:             "operating system profiles from Git",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // ours reports misuse
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := "see osm-gitops --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return cli.Misusef(hint, "unknown command %q", args[0])
		},
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // Args has rejected every argument
		Version: versionText(),
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Write profiles:", []*cobra.Command{
			newBundleCommand(), newDiffCommand(), newImportCommand(), newInitCommand(), newLintCommand(), newRebaseOverlayCommand(), newRenderCommand(), newSchemaCommand(), newSnapshotCommand(),
		}},
		{"Operate:", append(verbs.Commands(), newControllerCommand(), newDoctorCommand(), newHandbackCommand())},
		{"Audit:", []*cobra.Command{newTraceCommand(), newUICommand(), newVerifyCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newCompletionCommand(), newVersionCommand())
	addCompletions(root)
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup("watch") != nil {
			cmd.Annotations = map[string]string{runsUntilStopped: "watch"}
		}
	}
	return root
}

// addScreenFlag adds --color to all commands.
func addScreenFlag(root *cobra.Command, screen *cli.Screen) {
	color := cli.Colors()[0]
	root.PersistentFlags().StringVar(&color, "color", color, "`WHEN` to color verdicts and severities: "+strings.Join(cli.Colors(), ", "))
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(cli.Colors(), color) {
			return cli.Misusef("--color "+strings.Join(cli.Colors(), ", --color "), "--color: unknown value %q", color)
		}
		output := cmd.Flags().Lookup("output")
		screen.EnableColor(color, output != nil && output.Value.String() != "text")
		if canShowProgress(cmd, cli.IsTerminal(cmd.InOrStdin())) {
			screen.ShowProgress()
		}
		return nil
	}
}

// runsUntilStopped annotates a command that does not end by itself. The value is the flag that
// makes it so, if any.
const runsUntilStopped = "runs-until-stopped"

// canShowProgress reports whether a command can show progress: not if it never ends, and not if
// the kubeconfig's program can prompt for a password on the same line.
func canShowProgress(cmd *cobra.Command, stdinIsTerminal bool) bool {
	if flag, ok := cmd.Annotations[runsUntilStopped]; ok && (flag == "" || cmd.Flags().Lookup(flag).Value.String() == "true") {
		return false
	}
	if !stdinIsTerminal || cmd.Flags().Lookup("kubeconfig") == nil {
		return true
	}
	var chosen clusters.Flags
	for name, value := range map[string]*string{"kubeconfig": &chosen.Kubeconfig, "context": &chosen.Context, "worker-cluster-kubeconfig": &chosen.WorkerKubeconfig} {
		*value, _ = cmd.Flags().GetString(name)
	}
	management, worker, err := chosen.Configs()
	return err == nil && management.ExecProvider == nil && worker.ExecProvider == nil
}

func flagError(cmd *cobra.Command, err error) error {
	if misuse, ok := errors.AsType[*cli.MisuseError](err); ok {
		return misuse
	}
	return cli.Misusef("see "+cmd.CommandPath()+" --help", "%w", err)
}

// noArgs rejects positional arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.Misusef("see "+cmd.CommandPath()+" --help", "unexpected argument %q", args[0])
	}
	return nil
}

// programName is the name of the program unless it runs as a plugin.
const programName = "osm-gitops"

// displayNameFor returns the command that a user types to run the program under this name, in
// which "-" separates words:
//
//	kubectl-osm_gitops  kubectl osm_gitops  https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
//	flux-osm            flux osm            https://github.com/fluxcd/flux2/tree/main/rfcs/0013-cli-plugin-system
func displayNameFor(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	for _, host := range []string{"kubectl", "flux"} {
		if plugin, ok := strings.CutPrefix(name, host+"-"); ok {
			return host + " " + plugin
		}
	}
	return programName
}

// setDisplayName replaces the program's name in usage texts and examples by what the user types.
func setDisplayName(cmd *cobra.Command, name string) {
	if name == programName {
		return
	}
	if !cmd.HasParent() {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	cmd.Long, cmd.Example = replaceProgramName(name, cmd.Long), replaceProgramName(name, cmd.Example)
	for _, sub := range cmd.Commands() {
		setDisplayName(sub, name)
	}
}

// replaceProgramName replaces the program's name by what the user types.
func replaceProgramName(name, text string) string {
	return strings.ReplaceAll(text, programName+" ", name+" ")
}
