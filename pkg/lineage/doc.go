// Package lineage holds what is common to every answer about the history of a pool: which
// configurations it had, and in which order. It reads annotations and never a cluster.
package lineage
