package cli

import "fmt"

// MisuseError says that the command line is wrong.
type MisuseError struct {
	Err  error
	Hint string // what to write instead
}

func (e *MisuseError) Error() string { return e.Err.Error() }
func (e *MisuseError) Unwrap() error { return e.Err }

// Misusef makes a MisuseError with a hint on what to write instead.
func Misusef(hint, format string, args ...any) error {
	return &MisuseError{Err: fmt.Errorf(format, args...), Hint: hint}
}
