// Package observe reads what the provenance of a node depends on: its machine and pool, and the
// records and profiles of that pool. It concludes nothing and writes nothing. Start with
// Reader.ChainOf and Reader.TimelineOf.
package observe
