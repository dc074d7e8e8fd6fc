// Package desired resolves what a pool requests: the profile that its annotations name, the
// address and CA of the cluster for nodes, the credentials of registries, and the values to which
// its cloudProviderSpec refers. From a record it restores the input of an earlier rendering.
// It only reads. Start with Profiles.Resolve and Records.RestoreInput.
package desired
