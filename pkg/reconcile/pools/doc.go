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
// Start with Reconcile in controller.go: observe.go reads, plan.go compares, apply.go
// applies through write.go, events.go and audit.go report. Package desired finds out what
// a pool asks for, token finds and renews its tokens, fault says what an error means for
// the next run.
package pools
