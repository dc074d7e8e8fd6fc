// Package ownership finds which Flux Kustomization or Argo CD Application applied an
// OperatingSystemProfile that no ProfileSource created, and from which revision, and
// records that on the object once: a later revision with the same content is not its
// origin. Neither tool need be installed, and a missing permission to read them is not an
// error.
//
// It never changes the content of a profile. Start with Resolver.Reconcile in controller.go,
// which records, and Resolver.ResolveOrigin in resolver.go, which only reads; flux.go and argo.go
// read the two tools' objects, managers.go reads who wrote the profile.
package ownership
