// Package load reads what arguments of commands name: profiles, manifests of pools, cluster
// files, repositories and clusters. It prints warnings and writes nothing.
package load
