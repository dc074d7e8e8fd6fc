// Package builtin maintains the ProfileSource of the built-in profiles: it creates the object, and
// restores it after a change. Start with Reconciler.Reconcile.
package builtin
