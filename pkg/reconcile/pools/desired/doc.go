// Package desired finds out what a pool asks for: the profile that its annotations name, what
// nodes are told of their cluster, the credentials of registries, and the values to which its
// cloudProviderSpec refers. From a record it makes the input of an earlier rendering again.
// It only reads. Start with Profiles.Resolve and Records.Restore.
package desired
