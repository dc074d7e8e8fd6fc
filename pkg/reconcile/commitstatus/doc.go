// Package commitstatus reports the outcome of a commit to the repository's host, GitHub,
// GitLab or Gitea, as the status that pull requests show.
//
// A status is sent once for each commit and state. Nothing waits for the host: Reconciled
// takes the result of a reconciliation, and a few workers send it later, with back-off.
// Start with Statuses in statuses.go; api.go has the differences between hosts, pools.go
// counts the pools that follow.
package commitstatus
