// Package testenv sets up what programs and tests of the whole system play on: a
// control plane with our kinds and rights, a repository, and the controller as a
// process.
package testenv
