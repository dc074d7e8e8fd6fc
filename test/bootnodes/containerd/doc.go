// Package containerd pins the containerd that a rehearsed node gets: the program that
// our profiles ask for, built from its own module.
package containerd
