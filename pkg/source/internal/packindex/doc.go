// Package packindex checks a pack that a Git server sends, and writes the index of it as
// git would. limits.go limits the cost of a hostile pack. It reads no objects from an
// existing index: that is objectstore.
//
// Start reading at Scan, then Entries.WriteIndex. go-git reads and writes Git's formats;
// the order in which the deltas of a pack are resolved is our own: Entries.index explains
// the cost of go-git's parser for a hostile pack.
package packindex
