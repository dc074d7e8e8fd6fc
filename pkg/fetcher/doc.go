// Package fetcher opens what a ProfileSource names: a Git repository with the credentials
// of its Secrets, an artifact of Flux, a directory, or the built-in profiles. It reads
// ProfileSources, Secrets and the objects of Flux, and writes nothing to the cluster.
// Errors and logs contain no credentials.
//
// Start with Fetcher.Fetch, or with Fetcher.NewRemote for the repository only; credentials.go reads
// Secrets. The caller processes the files.
package fetcher
