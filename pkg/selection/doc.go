// Package selection says which version of which profile a MachineDeployment asks for, and
// which ProfileSource offers it. It is a pure function of annotations, labels and
// inventories: the controller asks it about the cluster, `osm-gitops diff` about two
// revisions of a repository. Start with RequestOf and FindCandidate.
package selection
