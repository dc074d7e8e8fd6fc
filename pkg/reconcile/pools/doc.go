// Package pools gives every annotated MachineDeployment, a pool, its
// OperatingSystemConfig and the Secrets its machines boot from, and maintains them:
// it rotates them when their content has to change, renews them before a token
// expires, and removes them with the pool.
//
// It creates the replacement before it deletes the original. It renders everything
// before it writes anything; it replaces a user-data Secret in one update,
// provisioning first, bootstrap last, and the Secret is never absent after its
// creation. If the requested content cannot be rendered, the last good configuration
// remains in place and is maintained.
//
// Start with Reconcile in controller.go. observe.go reads, with objects.go and
// lastgood.go; plan.go and plan_lastgood.go compare, without a client; apply.go writes,
// through write.go; events.go and audit.go report. affected.go maps a change of another
// object to the pools that have to run.
//
// Each subpackage has its own part: desired resolves what a pool requests, token finds
// and requests its tokens, access lets a token read its pool's Secrets, archive stores
// records of replaced configurations, and fault says what an error means for the next run.
package pools
