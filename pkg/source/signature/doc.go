// Package signature checks signatures of Git commits and tags against a set of public
// keys: OpenPGP keys in ASCII armor, and SSH keys as lines of allowed_signers (see
// ssh-keygen(1)) or plain public keys.
//
// It has no access to repositories or clusters: it gets the signed bytes and the
// signature, and returns the signer. The parsers of both kinds of signatures are those of
// Flux's fluxcd/pkg/git v0.52.0. Its own functions are not used, because they return the
// same result for unknown, expired and revoked keys, and do not support principals.
//
// Start reading at ParseKeys, then Keys.Verify.
package signature
