// Package shell models scripts for lint's rules and for lists of downloads: it parses scripts,
// finds their commands, expands words as far as their values are known, and follows a script
// without running it. It knows shells, wrapper programs such as sudo, and the options of curl
// and wget. It does not decide which commands are findings or downloads.
//
// It is pure: it runs no program and reads no file of this machine.
//
// Start with Script in script.go for the commands of a script in source order. Walker in walk.go
// follows both branches of an unknown condition, and resolves constant variables, loops over
// literal values, functions, and scripts that run scripts. A State is the result of one such path.
// The interpreter of mvdan.cc/sh cannot replace it, because it follows a single path and runs
// programs.
package shell
