// Package e2e is the base of tests of the built controller: a real API server, a real Git server,
// exactly the rights of deploy/rbac.yaml, profiles that are pushed, pools that are applied. It has
// no mocks and calls no function inside the program.
//
// The tests are in its subpackages, which run in parallel, each with its own control plane. The tests
// of a package run one after the other, because there is one controller for a cluster: its lease,
// its permissions, its webhooks, the profiles and configurations in kube-system, and the namespace of
// the user data are the cluster's. Namespaces separate pools alone, and many tests stop, kill or
// replace the controller, or count its requests.
//
// Four tests need another control plane than the one they would share. TestApart has two, with the
// kinds that each has in an installation with a worker cluster. In TestSeed only a kind of ours and
// one of KKP's are installed. TestRestoredFromBackup replaces the storage, which restarts
// everything at an older state. TestDoctor removes kinds and policies.
package e2e
