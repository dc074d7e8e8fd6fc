// Package ownership finds out which Kustomization of Flux, or Application of Argo CD,
// applied an OperatingSystemProfile that no ProfileSource made, and from which revision,
// and notes that on the object once: what comes after with the same content came no
// earlier. Neither need be installed, and who is not to be asked is no error.
//
// It never changes what a profile holds. Start with Of in noter.go; flux.go and argo.go
// read what the two say of themselves, managers.go who wrote the object.
package ownership
