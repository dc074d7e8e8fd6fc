// Package v1alpha1 has the parts of machine-controller's kinds (group cluster.k8s.io)
// that this project reads.
//
// The types are partial on purpose. Never Update an object through them: the
// fields they do not know would be lost. Patch metadata instead.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.k8s.io
package v1alpha1
