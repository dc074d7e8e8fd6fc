// Package execution has the state of one path through a script: variables, arguments, output and
// exit status, as far as they are known. It splits a state by a condition whose result is unknown,
// merges states that are equal, and offers a state to the expansion of words.
//
// It follows no statement: package symbolic does. Start with State.
package execution
