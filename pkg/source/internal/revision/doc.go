// Package revision finds the commit that a user means: a branch, a tag, the highest tag of a
// range, a full reference, a commit's id, or a revision such as HEAD~1. If there is none, the
// error names what is there. Start reading at Selector for a server, Parse for a repository on
// this machine.
package revision
