// Package importer takes over the profiles of a cluster that keeps them as objects: it
// decides for each OperatingSystemProfile whether it becomes a file, an overlay on
// another profile, or nothing because the built-in one means the same, writes the
// files so that people can read them, and names everything that osm-gitops refuses
// though the reference implementation takes it.
//
// It is pure: objects in, files and a report out. It writes no file and talks to no
// cluster, and it holds no credential: what it renders, it renders with its own.
//
// Start with New in plan.go.
package importer
