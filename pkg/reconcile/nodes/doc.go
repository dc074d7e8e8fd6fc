// Package nodes writes down for every node of a pool which configuration it was
// provisioned from: one immutable NodeProvenance per Node that has a Machine, kept
// for a while after the node is gone.
//
// It never decides what a node gets, and never guesses silently: what rests on the
// node's own word, on what was current at a time, or on nothing at all is said in
// the object. What a node says of itself is compared with the records of its pool,
// and both are kept.
//
// Start with Reconcile in controller.go. observe.go follows a Node to its pool and
// reads the pool's records, timeline.go orders them in time, decide.go concludes,
// behind.go keeps what changes when a pool gets another version, retain.go removes
// what is too old.
package nodes
