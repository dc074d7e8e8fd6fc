// Package shell models scripts for lint's rules and for lists of downloads: it parses scripts,
// finds their commands, and reads words as far as their values are known. It knows shells, wrapper
// programs such as sudo, and the options of curl and wget. It does not decide which commands are
// findings or downloads, and follows no path: package symbolic does.
//
// It is pure: it runs no program and reads no file of this machine.
//
// Start with Commands in script.go, the commands of a script in source order.
package shell
