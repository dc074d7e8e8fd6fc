// Package delivery tests how profiles come into a cluster: pushes, sources of every kind, and what is
// wrong with them.
package delivery
