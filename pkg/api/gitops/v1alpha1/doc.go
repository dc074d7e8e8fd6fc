// Package v1alpha1 has the kinds that this project adds, group gitops.k8c.io, and every
// label, annotation, condition type, reason and event reason it uses. Start with
// ProfileSource in profilesource.go, then names.go.
//
// +kubebuilder:object:generate=true
// +groupName=gitops.k8c.io
package v1alpha1
