// Package kubeclient has the parts of a cluster's clients: configurations from kubeconfigs,
// the scheme and the mapper of kinds, and reads that several packages share. It writes nothing
// except with Patch.
package kubeclient
