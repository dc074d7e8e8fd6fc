// Package verify proves where the configuration of a node or of a pool comes from:
// it reads what the clusters say, takes the profile out of the repository at the
// commit that is recorded, renders again from the recorded inputs, and compares.
//
// It never writes, and it never believes an object because another one says the
// same: what it can compute it computes. Credentials are not needed and not shown;
// a Secret is compared with what rendering makes with the tokens that the Secret's
// own document holds.
//
// Start with Verifier in verify.go. Each thing that is compared has a file: what the
// cluster holds is found in chain.go, the repository is asked in repository.go and
// origin.go, record.go, profile.go, config.go, documents.go and node.go compare.
package verify
