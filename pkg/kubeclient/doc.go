// Package kubeclient has the parts of a cluster's clients: configurations from kubeconfigs,
// the scheme and the mapper of kinds, reads that several packages share, and a runnable for every
// replica. It writes nothing except with Patch.
package kubeclient
