// Package fleet is the state of a cluster at one moment: its sources and their rollouts, the
// pools with their configurations, the nodes, and the commits that all of these come from.
//
// It only reads, and formats nothing: the audit page and the command get show it. A Model
// is built from Objects by NewModel in model.go, a pure function. Untrusted text (authors,
// file names, messages) is truncated and has no control characters (security.md 28). No
// credential reaches this package: configurations contain placeholders.
//
// Reader reads the objects, Snapshots decides when they are read again.
package fleet
