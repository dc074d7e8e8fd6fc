// Package verify proves where the configuration of a node or of a pool comes from. It reads
// the objects of the clusters, takes the profile from the repository at the recorded
// commit, renders again from the recorded inputs, and compares.
//
// It never writes. It computes everything it can and does not trust an object because
// another one repeats it. Of records it shares with the controllers how they are found and
// decoded, in package lineage, and decides itself which it accepts and what follows. It needs
// and shows no credentials: a Secret is compared with a rendering that uses the tokens in the
// Secret's own document.
//
// Start with Verifier in verify.go. Each subject of comparison has a file: chain.go finds
// the objects in the clusters, repository.go and origin.go read the repository, and
// record.go, profile.go, config.go, documents.go and node.go compare.
package verify
