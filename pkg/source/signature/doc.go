// Package signature checks signatures of Git's commits and tags against a set of
// public keys: OpenPGP keys in ASCII armour, and SSH keys as lines of
// allowed_signers (see ssh-keygen(1)) or plain public keys.
//
// It knows neither repositories nor clusters: it gets the bytes that were signed
// and the signature, and says whose it is. The parsers of both kinds of signatures
// are those that Flux's fluxcd/pkg/git v0.52.0 uses. Its own functions are not used,
// because they give the same answer for a key that is unknown, expired or revoked,
// and know no principals.
//
// Start reading at ParseKeys, then Keys.Verify.
package signature
