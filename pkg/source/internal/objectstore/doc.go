// Package objectstore reads and writes Git's objects: trees, commits and files by id, and
// bare mirrors on disk that are fetched incrementally. All returned content was hashed
// and matches its id. limits.go limits the cost of a hostile pack.
//
// Start reading at Objects, then Mirror.Update. go-git reads and writes Git's formats,
// with two exceptions. The order in which the deltas of a pack are resolved is our own:
// packEntries.index explains the cost of go-git's parser for a hostile pack. Objects are
// read below an os.Root, which go-git's storage does not support.
package objectstore
