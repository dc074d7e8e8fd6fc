// Package dial connects to hosts that objects in a cluster name, possibly through a proxy.
// It checks every address after its name was resolved, and describes errors of the network
// without text of a server. The environment has no influence: no proxy variables.
//
// Start reading at Dialer.
package dial
