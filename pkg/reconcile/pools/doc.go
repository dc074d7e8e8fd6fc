// Package pools gives every annotated MachineDeployment, a pool, its
// OperatingSystemConfig and the Secrets its machines boot from, and maintains them:
// it rotates them when their content has to change, renews them before a token
// expires, and removes them with the pool.
//
// It renders a configuration before it changes anything that machines use. Then it writes the
// configuration, the provisioning Secret and the bootstrap Secret, in this order. It replaces a
// Secret in one update. Objects that cannot be updated are absent between two requests: a
// configuration, whose spec is immutable, and which no machine reads; and an immutable Secret of
// operating-system-manager, once, while no machine boots. If the requested content cannot be
// rendered, the last good configuration remains in place and is maintained.
//
// Start with Reconcile in controller.go. The steps of a run:
//
//   - observe.go reads, with objects.go, lastgood.go and collision.go (other pools whose names give
//     the same object names);
//   - tokens.go generates a bootstrap token and the key of digests, if observing found none;
//     between two plans it obtains the token with which a document is rendered;
//   - plan.go compares, without a client or a clock; annotations.go builds the two Secrets, the
//     configuration and their annotations; plan_lastgood.go plans for a generation that is only
//     maintained, such as that of a suspended pool, takeover.go for Secrets of
//     operating-system-manager, edge.go the script of edge pools; drift.go lists what a user changed;
//   - apply.go writes, through write.go;
//   - events.go reports: events, metrics, the audit log, and the time of the next run.
//
// release.go removes what a former pool has. watches.go has the watches, and maps a change of
// another object to pools; own.go ignores the events of a run's own writes. poolcache.go has
// state between runs; objects.go also has what the cache has of Secrets.
//
// Each subpackage has its own part: desired resolves what a pool requests, token finds
// and requests its tokens, access lets a token read its pool's Secrets, archive stores
// records of replaced configurations, secretdigest digests credentials with a key, and fault says
// what an error means for the next run.
package pools
