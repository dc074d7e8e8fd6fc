// Package fetcher opens what a ProfileSource names: a Git repository with the
// credentials of its Secrets, an artifact of Flux, a directory, or the built-in
// profiles. It reads ProfileSources, Secrets and the objects of Flux, and writes
// nothing to the cluster. Credentials are in no error and in no log.
//
// Start with Fetcher.Fetch; Fetcher.Remote is for those who need only the
// repository. What is done with the files is for the caller.
package fetcher
