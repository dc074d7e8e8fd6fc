// Package v1alpha1 holds the kinds of group operatingsystemmanager.k8c.io that
// machine-controller's users already have: OperatingSystemProfile, a template,
// and OperatingSystemConfig, what it becomes for one MachineDeployment.
//
// The wire format is fixed: every field, default and enumeration here is the one
// that existing profiles and tools rely on. What this project adds stands in
// package gitops/v1alpha1, in annotations, and in the status of an
// OperatingSystemConfig.
//
// +kubebuilder:object:generate=true
// +groupName=operatingsystemmanager.k8c.io
package v1alpha1
