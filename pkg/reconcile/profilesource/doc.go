// Package profilesource takes profiles from sources into the cluster: pkg/fetcher fetches
// what a ProfileSource names; this package makes one immutable OperatingSystemProfile for each
// version that is current, and then says in one status write which is current.
//
// After that it sees to the versions that are not current: those that pools ask for and
// the newest others are made, and what nothing refers to is deleted.
//
// It never changes an OperatingSystemProfile and never takes one away because a
// file is bad. Start with Reconcile in controller.go; plan.go holds what needs
// no cluster, events.go turns an outcome into conditions and events, retention.go sees
// to the versions that are not current. Keeper, in builtin.go, keeps the ProfileSource
// of the built-in profiles.
package profilesource
