// Package pools gives every annotated MachineDeployment, a pool, its
// OperatingSystemConfig and the Secrets its machines boot from, and keeps them:
// rotated when their content has to change, renewed before a token ends, removed
// with the pool.
//
// It makes before it breaks. Everything is rendered before anything is written;
// a user-data Secret is replaced in one update, provisioning first, bootstrap
// last, and is never absent once it exists. What cannot be rendered leaves the
// last good configuration in place and maintained.
//
// Start with Reconcile in controller.go. observe.go reads, with objects.go and
// lastgood.go; plan.go and plan_lastgood.go compare, without a client; apply.go writes,
// through write.go; events.go and audit.go report. affected.go maps a change of another
// object to the pools that have to run.
//
// Packages below have their own part: desired finds out what a pool asks for, token finds
// and requests its tokens, access lets a token read its pool's Secrets, archive keeps
// records of replaced configurations, and fault says what an error means for the next run.
package pools
