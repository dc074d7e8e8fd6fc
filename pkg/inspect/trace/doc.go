// Package trace answers, from what the clusters hold, which commit a node was
// provisioned from: it follows the chain from a Node to its machine, pool,
// configuration, record and profile, and to the commit and the source that the profile
// is from.
//
// It only reads. It never guesses: every step of a Trail says whether it was found, is
// gone, is missing, was edited, is somebody else's or may not be read, and what does not
// agree is listed. Text of strangers is made harmless before it is put into a Trail
// (security.md 28). Of Secrets it reads metadata alone.
//
// Start with Clusters in clusters.go and Trail in trail.go. node.go begins at a node or
// a machine, pool.go at what is made for a pool, profile.go at a profile, born.go at a
// commit. record.go reads what else is needed to render a generation again.
package trace
