// Package revision finds the commit that a user selects: by a branch, a tag, a range of tags
// of which the highest is used, a full reference, a commit id, or a revision such as HEAD~1.
// If there is no such commit, the error lists the names that exist. Start reading at Selector
// for a server, Parse for a repository on this machine.
package revision
