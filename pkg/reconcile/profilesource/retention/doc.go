// Package retention handles the versions of profiles that are not current: it finds what uses a
// version, creates the objects that pools request or that belong to the newest versions, deletes
// those without references, and lists for the inventory which versions pools can request.
//
// It never deletes an object that a configuration or an archived record names. Start with NewPlan,
// which decides without a cluster, with the rules in decide.go, what the inventory lists and which
// objects are created and deleted. Retainer.Observe reads before, Retainer.Apply writes after the
// inventory is written, and Retainer.Report emits events. Archived records are read in Apply, right
// before the deletions. deletion.go has the same steps for a source that is deleted.
package retention
