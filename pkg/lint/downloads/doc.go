// Package downloads finds what a node will download: the URLs, packages, package
// repositories and container images that a rendered profile asks for.
//
// It follows the scripts without running them: variables that are constant, loops
// over literal values, functions, and scripts that run scripts are resolved; where a
// condition is not known, both ways are taken. What cannot be resolved is listed as
// such, with the place where it stands, and never left out.
//
// It is pure: text in, a list out; no network, no cluster, no program is run.
//
// Start with Of in node.go, then List in list.go. Package shell follows statements;
// programs.go and packages.go know what programs download, places.go where in the profile that
// is, and mirrors.go compares a list with what a site has mirrored.
package downloads
