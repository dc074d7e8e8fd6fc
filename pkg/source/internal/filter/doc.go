// Package filter decides which entries of a source are profile files, for Git trees,
// folders on disk, archives and embedded files: names, kinds, limits and the rules of
// ignore files. It reads nothing itself. Start reading at Classify and Scope.Select.
//
// The rules are our own: for 17 of the 68 patterns of TestIgnoreIsGits the matcher that
// go-git and fluxcd/pkg/sourceignore v0.19.0 share differs from git, such as [!a].yaml,
// x[[:digit:]].yaml, **/a/b.yaml and *, !*/, !keep.yaml on three lines.
package filter
