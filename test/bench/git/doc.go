// Command git measures what following a repository costs, beside what the git
// command needs for the same in the same run: `make bench`.
//
// It generates a repository of 50,000 commits and 1,000 profile files once, in the
// user's cache folder, serves it by git http-backend on loopback, and runs every
// side in a process of its own, so that CPU and memory are those of that side. The
// ratios are what counts: the figures themselves are those of a busy machine. It
// ends with 1 where a target is missed.
package main
