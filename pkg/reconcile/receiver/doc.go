// Package receiver listens for the requests with which a repository's host, GitHub,
// GitLab, Gitea, Bitbucket or another, says that something was pushed. A request
// that is signed with the key of a ProfileSource asks for one look at that source,
// by Flux's annotation reconcile.fluxcd.io/requestedAt, and does nothing else:
// nothing in it is believed beyond which branch or tag it is about, so a request
// that is sent again costs one look at most. Because the annotation is in the
// cluster, every replica may listen, whichever is the leader.
//
// It never parses what is not authenticated, and answers without saying why. Start
// with Listener in listener.go; providers.go and payload.go hold what needs no
// cluster, looks.go sees to it that a source is not looked at too often.
package receiver
