// Command osm-gitops keeps profiles of operating systems in Git and turns them
// into what nodes boot from.
//
// Every verb has a file of its own. Data goes to standard output, everything else
// to standard error. The exit status is 0, 1 for a failure or a finding, 2 for
// misuse; that of verify also 3, where another release is needed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
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

// run is the program, args[0] the name that it was called by. It never exits.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	name := calledAs(args[0])
	root := newRoot()
	speakAs(root, name)
	root.SetArgs(contractDashes(args[1:]))
	root.SetIn(stdin)
	root.SetOut(stdout)
	stderr = shown(stderr, "")
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var misuse *misuseError
	if !errors.As(err, &misuse) {
		report(stderr, err)
		var other *statusError
		if errors.As(err, &other) {
			return other.status
		}
		return exitFailure
	}
	report(stderr, misuse.err)
	hint := misuse.hint
	if hint == "" {
		hint = "see osm-gitops --help"
	}
	fmt.Fprintf(stderr, "osm-gitops: hint: %s\n", as(name, hint))
	return exitMisuse
}

// shown keeps what strangers wrote from doing something where it is printed, where output
// names what a command prints: text has no hidden characters and, in a job of a CI, no command
// to its runner; JSON escapes both and stays the same value. YAML is encoded so already.
func shown(w io.Writer, output string) io.Writer {
	switch output {
	case "json", outputIntoto:
		return runnerlog.JSON(w)
	case "", "text", "table", "mirrors", "markdown":
	default:
		return w
	}
	// GITHUB_ACTIONS is what runners of GitHub, Gitea and Forgejo set, TF_BUILD those of
	// Azure Pipelines.
	if os.Getenv("GITHUB_ACTIONS") != "" || os.Getenv("TF_BUILD") != "" {
		w = runnerlog.Text(w)
	}
	if output == "markdown" {
		return w // its author hides what breaks links
	}
	return runnerlog.Visible(w)
}

// report prints an error, each line with the program's name.
func report(stderr io.Writer, err error) { tell(stderr, "", err) }

// warn says what is wrong and does not keep the command from its result.
func warn(stderr io.Writer, err error) { tell(stderr, "warning: ", err) }

// maxLine bounds a line on standard error. What says more quotes a stranger.
const maxLine = 8 << 10 // 8 KiB

// tell prints an error. It may quote what a stranger committed, or what his server
// said: nothing of that does something to the terminal (security.md 28).
func tell(stderr io.Writer, kind string, err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(redact.Printable(err.Error())), "\n") {
		fmt.Fprintf(stderr, "osm-gitops: %s%s\n", kind, redact.Shorten(line, maxLine))
	}
}

// misuseError says that the command line is wrong.
type misuseError struct {
	err  error
	hint string
}

func (e *misuseError) Error() string { return e.err.Error() }
func (e *misuseError) Unwrap() error { return e.err }

// misuse makes a misuseError with a hint on what to write instead.
func misusef(hint, format string, args ...any) error {
	return &misuseError{err: fmt.Errorf(format, args...), hint: hint}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "osm-gitops",
		Short:             "operating system profiles from Git",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // ours knows misuse
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misusef("see osm-gitops --help", "no command given")
			}
			hint := "see osm-gitops --help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return misusef(hint, "unknown command %q", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused everything
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return misusef("see "+cmd.CommandPath()+" --help", "%w", err)
	})
	root.AddCommand(
		newBundleCommand(),
		newCompletionCommand(),
		newControllerCommand(),
		newDiffCommand(),
		newDoctorCommand(),
		newHandbackCommand(),
		newImportCommand(),
		newInitCommand(),
		newLintCommand(),
		newRebaseOverlayCommand(),
		newRenderCommand(),
		newSchemaCommand(),
		newSnapshotCommand(),
		newTraceCommand(),
		newUICommand(),
		newVerifyCommand(),
		newVersionCommand(),
	)
	addCompletions(root)
	return root
}

// noArgs refuses arguments that no flag asked for.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misusef("see "+cmd.CommandPath()+" --help", "unexpected argument %q", args[0])
	}
	return nil
}
