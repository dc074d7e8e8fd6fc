// Package change has the verbs that write: reconcile, suspend, resume, pin, unpin and release.
// They write what a user can write with kubectl, a ProfileSource's spec.suspend and annotations,
// unless Flux or Argo CD would undo it.
package change
