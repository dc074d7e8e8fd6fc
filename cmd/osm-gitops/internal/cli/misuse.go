package cli

import "fmt"

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
