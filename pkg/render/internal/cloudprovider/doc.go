// Package cloudprovider generates the configuration of the cloud provider that is built into
// kubelets below 1.29, from the cloudProviderSpec of a MachineDeployment and the values that it
// refers to. It reads nothing itself: see ClusterValues.
package cloudprovider
