// Package verbs has the commands of daily operations: get, reconcile, suspend, resume, pin,
// unpin, release and history. Each uses the permissions of the current user, and can print
// the kubectl command that does the same.
//
// They only read objects, and write what a user can write with kubectl: a ProfileSource's
// spec.suspend, and annotations. What pools have is what the audit page and trace say. Start
// reading at Commands.
package verbs
