// Package e2e tests the built controller as its users meet it: a real API server,
// a real Git server, rights from deploy/rbac.yaml and nothing more, profiles that
// are pushed, pools that are applied. Nothing is faked and nothing is called
// inside the program.
//
// The harness stands in system_test.go, process_test.go and gitserver_test.go.
package e2e
