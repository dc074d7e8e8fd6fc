// Package attestation says in the form of in-toto and SLSA what a node was provisioned
// from, for those who check it with other tools than ours, and signs it.
//
// It is pure: a statement is made from what was written down about the node and from
// the records, and the same of the same. Everything in it is from placeholder
// renderings; no credential ever. What is not known is left out, never guessed.
//
// Start with Statements in statement.go. key.go reads keys and signs.
package attestation
