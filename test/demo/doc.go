// Command demo shows osm-gitops at work, from a commit to the user-data of a
// node: `make demo`.
//
// It runs everything for real on loopback: a Kubernetes control plane, a Git
// server, git, and the controller's binary with the rights of deploy/rbac.yaml and
// no more. Profiles and pools are those of examples/. It is the acceptance test as
// well; see demo_test.go.
//
// With KEEP=1 it leaves everything running at the end, until Ctrl-C. However it
// ends, no process and no file of it remains. Start with story.go.
package main
