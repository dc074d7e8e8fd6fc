// Package verification checks a snapshot against the signatures that are demanded of it:
// of the head, of a tag, of every new commit, or of whoever changed a path. Package
// signature checks a single one. Start reading at Subject.Verify.
package verification
