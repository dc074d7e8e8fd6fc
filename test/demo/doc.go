// Command demo shows the work of osm-gitops, from a commit to the user data of a node: `make demo`.
//
// It runs all parts for real on loopback: a Kubernetes control plane, a Git server, git, and the
// controller's binary with exactly the rights of deploy/rbac.yaml. Profiles and pools are those of
// examples/. It is the acceptance test as well; see demo_test.go.
//
// With KEEP=1 everything continues to run at the end, until Ctrl-C. When it exits, no process of it
// remains, and no file but caches. ENVTEST_INDEX is the URL of another index of envtest's releases.
// Start with story.go; download.go has the control plane that is not built.
package main
