// Package attestation states what a node was provisioned from in the format of in-toto and
// SLSA, so that other tools can verify it, and signs the statements.
//
// It is a pure function of the NodeProvenance and the records: equal inputs give equal
// statements. Statements are built from renderings with placeholders, and never contain
// credentials. Unknown facts are omitted, never guessed.
//
// Start with Statements in statement.go. key.go reads keys, sign.go signs.
package attestation
