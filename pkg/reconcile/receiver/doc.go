// Package receiver listens for the requests with which a repository's host, GitHub,
// GitLab, Gitea, Bitbucket or another, reports a push. A request that is signed with the
// key of a ProfileSource requests one reconciliation of that source, with Flux's
// annotation reconcile.fluxcd.io/requestedAt, and does nothing else. Of its content only
// the branch or tag is used, so a repeated request costs at most one reconciliation.
// Because the annotation is in the cluster, every replica can listen, not only the
// leader.
//
// It never parses unauthenticated content, and its answers give no reason. Start with
// Listener in listener.go; providers.go and payload.go need no cluster, debouncer.go limits
// how often a source is reconciled.
package receiver
