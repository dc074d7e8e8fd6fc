// Package cli has what commands print to users and runners: errors of misuse, warnings,
// output that is safe for a CI runner or a terminal, and atomic replacement of files.
package cli
