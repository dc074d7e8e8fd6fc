// Package symbolic follows scripts without running them, on all paths: both branches of an unknown
// condition, loops over literal values, functions, and scripts that run scripts. What a program
// does is up to a Machine.
//
// The interpreter of mvdan.cc/sh cannot replace it, because it follows a single path and runs
// programs. Start with Walker.
package symbolic
