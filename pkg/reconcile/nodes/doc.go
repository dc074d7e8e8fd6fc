// Package nodes records for every node of a pool which configuration it was provisioned
// from: one immutable NodeProvenance per Node that has a Machine, retained for a time
// after the node is deleted.
//
// It never decides what a node gets, and it never hides a guess: the object says whether
// its evidence is the node's own report, the configuration that was active at the time,
// or nothing. The node's report is compared with the records of its pool, and both are
// recorded.
//
// It also says whether a node still has what its configuration put on it, as the node itself
// reports. It repairs nothing.
//
// Start with Reconcile in controller.go. The steps of a run:
//
//   - observe.go reads; package observe follows a Node to its pool and reads the pool's records, package
//     lineage orders them in time and concludes; match.go and package drift compare a node's report about
//     its files with its configuration;
//   - plan.go plans, without a client or a clock; journal.go lists the entries that the audit log lacks;
//   - apply.go writes.
//
// A run has up to three such rounds: about deleted nodes, which nothing else may delay, about the node that
// has the name now, and about the status of its new NodeProvenance once that exists, because an object
// with its name counts if there is one already. Two parts do not fit the steps. match.go concludes while it
// reads: what a report says decides how many configurations are rendered. And observing asks
// in-memory limits, because what follows costs requests, which nodes could cause at any rate.
//
// behind.go updates nodes when a pool gets another version, in the same steps. retain.go deletes old
// NodeProvenances.
package nodes
