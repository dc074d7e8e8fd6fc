// Package e2e is the base of tests of the built controller: a real API server, a real Git server,
// exactly the rights of deploy/rbac.yaml, profiles that are pushed, pools that are applied. It has
// no mocks and calls no function inside the program.
//
// The tests are in its subpackages, which run in parallel, each with its own control plane.
package e2e
