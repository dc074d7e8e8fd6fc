// Package cli is how the program talks: errors of misuse, warnings, what is printed where a
// CI runner or a terminal reads it, and files that are replaced whole.
package cli
