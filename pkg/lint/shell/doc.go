// Package shell is the model of a script that lint's rules and lists of downloads share: it parses
// scripts, finds their commands, expands words as far as a reader can, and follows a script
// without running it. It knows shells, the programs that run other ones, and the options of
// curl and wget; it does not know what makes a command a finding or a download.
//
// It is pure: text in, answers out; no program is run, and no file of this machine is read.
//
// Start with Script in script.go for the commands of a script in the order in which they
// stand. Walker in walk.go takes both ways where a condition is not known: variables that are
// constant, loops over literal values, functions, and scripts that run scripts are resolved. Its
// World is one way a script may have gone. It is our own, because the interpreter of mvdan.cc/sh
// takes one way and runs programs.
package shell
