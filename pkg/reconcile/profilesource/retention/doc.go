// Package retention handles the versions of profiles that are not current: it finds what uses a
// version, creates the objects that pools request or that belong to the newest versions, deletes
// those without references, and lists for the inventory which versions pools can request.
//
// It never deletes an object that a configuration or an archived record names. Start with
// Retainer.IndexVersions and Retainer.CreateAndPrune; decide.go decides, without a cluster,
// what is retained.
package retention
