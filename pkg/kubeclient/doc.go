// Package kubeclient has what clients of a cluster are made of, configurations from
// kubeconfigs, the scheme and the mapper of kinds, and reads that several packages share. It
// writes nothing.
package kubeclient
