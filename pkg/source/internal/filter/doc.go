// Package filter decides which entries of a source are profile files, for trees of Git,
// folders on disk, archives and embedded files alike: names, kinds, limits and the rules
// of IgnoreFiles. It reads nothing itself. Start reading at Classify and Scope.Keep.
//
// The rules are our own: of the 68 patterns of TestIgnoreIsGits the matcher that go-git and
// fluxcd/pkg/sourceignore v0.19.0 share takes 17 for something else than git does, such as
// [!a].yaml, x[[:digit:]].yaml, **/a/b.yaml and *, !*/, !keep.yaml on three lines.
package filter
