// Package watch reports changes of files below folders of this machine, by events of the kernel or,
// if it does not report them, by polling. Which folders matter is up to its caller.
//
// It never reads files. Start reading at Start.
package watch
