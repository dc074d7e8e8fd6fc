// Package nodecache configures the caches that package nodes reads: which fields of nodes,
// machines, NodeProvenances and records they store, and by what these are indexed. It makes no
// caches. Start with WorkerObjects and Index.
package nodecache
