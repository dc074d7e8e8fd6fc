// Package profilesource takes profiles from sources into the cluster. It fetches the content of
// a ProfileSource with pkg/fetcher, creates one immutable OperatingSystemProfile for each
// current version, and then states in one status write which versions are current.
//
// After that it handles the versions that are not current: it creates those that pools
// request and the newest others, and deletes those without references.
//
// Conditions are set with apimachinery, because conditions.Set of fluxcd/pkg/runtime v0.111.0
// changes lastTransitionTime with each message: users could not see since when a source is not
// ready. Its patch helper sends the status and the conditions in two requests.
//
// It never changes an OperatingSystemProfile and never deletes one because a file is invalid.
// Start with reconcile in controller.go, which has two rounds. In the first, observe reads the
// source, package inventory decides which profiles are offered, and apply.go creates the objects of
// current versions. In the second, observeVersions reads after this write which objects exist and
// what refers to them, retention.NewPlan decides about the other versions, events.go turns the
// outcome of both into status, conditions and events, and only then retention creates and deletes.
// The finalizer is written before the first round. The packages below know whether a revision may be
// applied (approval), the objects of versions (objects), which versions remain (retention), and the
// ProfileSource of the built-in profiles (builtin).
package profilesource
