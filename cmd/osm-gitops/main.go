// Command osm-gitops delivers operating system profiles from Git to Kubernetes nodes.
//
// Each verb has its own file. Data goes to standard output, everything else to standard
// error. The exit status is 0 for success, 1 for a failure or findings, 2 for misuse, and 3
// if verify needs another release.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
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
	name := calledAs(args[0])
	root, arguments := newRoot(), contractDashes(args[1:])
	if program := newReferenceProgram(args[0]); program != nil {
		root, arguments = program, doubleDashes(args[1:])
	}
	setDisplayName(root, name)
	root.SetArgs(arguments)
	root.SetIn(stdin)
	root.SetOut(stdout)
	stderr = cli.Visible(stderr, "")
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var misuse *cli.MisuseError
	if !errors.As(err, &misuse) {
		cli.Report(stderr, err)
		var other *statusError
		if errors.As(err, &other) {
			return other.status
		}
		return exitFailure
	}
	cli.Report(stderr, misuse.Err)
	hint := misuse.Hint
	if hint == "" {
		hint = "see osm-gitops --help"
	}
	fmt.Fprintf(stderr, "osm-gitops: hint: %s\n", as(name, hint))
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
	return root
}

func flagError(cmd *cobra.Command, err error) error {
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

// calledAs returns the command that a user types to run the program under this name, in
// which "-" separates words:
//
//	kubectl-osm_gitops  kubectl osm_gitops  https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
//	flux-osm            flux osm            https://github.com/fluxcd/flux2/tree/main/rfcs/0013-cli-plugin-system
func calledAs(path string) string {
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
	cmd.Long, cmd.Example = as(name, cmd.Long), as(name, cmd.Example)
	for _, sub := range cmd.Commands() {
		setDisplayName(sub, name)
	}
}

// as replaces the program's name by what the user types.
func as(name, text string) string { return strings.ReplaceAll(text, programName+" ", name+" ") }
