// Command git measures the cost of following a repository, relative to the cost of the same
// operation with the git command in the same run: `make bench`.
//
// It generates a repository of 50,000 commits and 1,000 profile files once, in the user's cache
// folder, serves it by git http-backend on loopback, and runs every side in its own process, so
// that CPU and memory are those of that side. Only the ratios are meaningful: absolute figures
// depend on the load of the machine. It exits with 1 if a target is missed.
package main
