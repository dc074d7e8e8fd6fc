// Package profiles takes profiles from sources into the cluster: it fetches what
// a ProfileSource names, makes one immutable OperatingSystemProfile for each
// version that is current, and then says in one status write which is current.
//
// It never changes an OperatingSystemProfile and never takes one away because a
// file is bad. Start with Reconcile in controller.go; decide.go holds what needs
// no cluster, report.go turns an outcome into conditions and events. Keeper, in
// keeper.go, keeps the ProfileSource of the built-in profiles.
package profiles
