// Package verification checks a snapshot against the required signatures: of the head, of
// a tag, of every new commit, or of the signers who changed a path. Package signature
// checks a single signature. Start reading at Subject.Verify.
package verification
