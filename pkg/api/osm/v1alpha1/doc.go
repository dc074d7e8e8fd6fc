// Package v1alpha1 has the kinds of group operatingsystemmanager.k8c.io that users of
// machine-controller already have: OperatingSystemProfile, a template, and
// OperatingSystemConfig, its rendering for one MachineDeployment.
//
// The wire format is fixed: existing profiles and tools rely on every field, default and
// enumeration here. Additions of this project are in package gitops/v1alpha1 and in
// annotations.
//
// +kubebuilder:object:generate=true
// +groupName=operatingsystemmanager.k8c.io
package v1alpha1
