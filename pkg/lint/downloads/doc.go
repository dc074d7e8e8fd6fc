// Package downloads finds what a node will download: the URLs, packages, package
// repositories and container images that a rendered profile requests.
//
// It follows the scripts without running them, and resolves constant variables, loops over
// literal values, functions, and scripts that run scripts. If a condition is unknown, it
// follows both branches. A download that cannot be resolved is listed as unresolved, with
// its position, and never omitted.
//
// It is pure: it turns text into a list, and uses no network, cluster or other program.
//
// Start with Find in node.go, then List in list.go. Package shell follows statements;
// programs.go and packages.go know what programs download, and places.go finds the position in the
// profile.
package downloads
