// Package clusters has the flags that choose the clusters of a command, or a dump of them, and
// opens what they choose with the permissions of the current user.
package clusters
