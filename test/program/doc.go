// Package program builds what tests run beside themselves: the controller, a
// control plane, kubectl and others, most of them from a module of its own. Each
// is built once and stored in the user's cache, for all packages and all trees. A
// test that builds by itself spends seconds of a processor on linking, in every run.
//
// It uses the standard library only, so that a test of pure code can import it
// without a Kubernetes client.
package program
