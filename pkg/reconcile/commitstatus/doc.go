// Package commitstatus tells a repository's host, GitHub, GitLab or Gitea, what became of
// a commit: the status that stands beside it in a pull request.
//
// A status is sent once for each commit and state. Nothing waits for the host: what
// a look came to is taken over by Looked and sent later, by a few workers, with
// back-off. Start with Statuses in statuses.go; api.go holds what the hosts differ
// in, pools.go counts the pools that follow.
package commitstatus
