// Package token knows the tokens of pools: the bootstrap token with which kubelets join
// (a Secret in kube-system, or a ServiceAccount's), and the node token with which a
// machine fetches its Secrets (one that all pools share, or one bound to the pool). It
// finds, generates and renews them, and replaces a node token in a document that cannot be
// rendered again.
package token
