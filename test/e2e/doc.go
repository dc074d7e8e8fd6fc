// Package e2e is what tests of the built controller stand on: a real API server, a real Git
// server, rights from deploy/rbac.yaml and nothing more, profiles that are pushed, pools that are
// applied. Nothing is faked and nothing is called inside the program.
//
// The tests are in the packages below it, which run beside each other, each with a control plane.
package e2e
