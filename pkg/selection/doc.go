// Package selection determines which version of which profile a MachineDeployment requests,
// and which ProfileSource offers it. It is a pure function of annotations, labels and
// inventories: the controller uses it for the cluster, `osm-gitops diff` for two revisions
// of a repository. Start with RequestOf and FindCandidate.
//
// If versions reach pools in waves, EntryForWave determines a pool's version. It reads only
// one ProfileSource and the pool's wave, so that no two objects have to be consistent: the
// inventory has the new version, status.rollouts the progress, and a pool without an entry
// there retains its version. Package rollout writes status.rollouts.
package selection
