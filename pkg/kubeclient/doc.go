// Package kubeclient makes what clients of a cluster are made of: configurations from
// kubeconfigs, the scheme, and the mapper of kinds. It asks no API server.
package kubeclient
