// Package selection says which version of which profile a MachineDeployment asks for, and
// which ProfileSource offers it. It is a pure function of annotations, labels and
// inventories: the controller asks it about the cluster, `osm-gitops diff` about two
// revisions of a repository. Start with RequestOf and FindCandidate.
//
// Where versions reach pools wave by wave, EntryForWave says which one a pool gets. It reads
// one ProfileSource and the pool's wave, so that no two objects have to be read at the same
// moment: the inventory tells what is to come, status.rollouts how far it has come, and
// without an entry there a pool keeps what it has. Package rollout writes status.rollouts.
package selection
