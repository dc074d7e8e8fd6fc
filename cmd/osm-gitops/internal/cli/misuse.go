package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// MisuseError is an error in the command line.
type MisuseError struct {
	Err  error
	Hint string // what to write instead
}

func (e *MisuseError) Error() string { return e.Err.Error() }
func (e *MisuseError) Unwrap() error { return e.Err }

// Misusef returns a MisuseError with a hint about correct usage.
func Misusef(hint, format string, args ...any) error {
	return &MisuseError{Err: fmt.Errorf(format, args...), Hint: hint}
}

// UsageOf is the hint for misuse of a command.
func UsageOf(cmd *cobra.Command) string { return "osm-gitops " + cmd.Use }

// RequireArgumentCount returns a check of the number of arguments.
func RequireArgumentCount(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Misusef(UsageOf(cmd), "an argument is missing")
		case len(args) > most:
			return Misusef(UsageOf(cmd), "unexpected argument %q", args[most])
		}
		return nil
	}
}
