// Package load reads what arguments of commands name: profiles, manifests of pools, cluster
// files and repositories. It prints warnings and writes nothing.
package load
