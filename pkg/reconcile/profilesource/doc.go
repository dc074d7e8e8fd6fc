// Package profilesource takes profiles from sources into the cluster: pkg/fetcher fetches
// what a ProfileSource names; this package makes one immutable OperatingSystemProfile for each
// version that is current, and then says in one status write which is current.
//
// After that it sees to the versions that are not current: those that pools ask for and
// the newest others are made, and what nothing refers to is deleted.
//
// Conditions are set with apimachinery, because conditions.Set of fluxcd/pkg/runtime v0.111.0
// changes lastTransitionTime with each message: users could not see since when a source is not
// ready. Its patch helper sends the status and the conditions in two requests.
//
// It never changes an OperatingSystemProfile and never takes one away because a
// file is bad. Start with Reconcile in controller.go: observe.go reads, plan.go decides
// without a cluster, apply.go creates the objects of current versions, events.go turns the
// outcome into status, conditions and events. After that, retention.go cares for the versions
// that are not current, which versionindex.go lists. pools.go and references.go find what
// uses a version. BuiltinSource, in builtin.go, keeps the ProfileSource of the built-in profiles.
package profilesource
