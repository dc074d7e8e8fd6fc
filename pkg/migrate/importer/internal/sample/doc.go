// Package sample has artificial pools for which profiles are rendered: for each provider, supported
// kubelet and setting. None of their values is a real credential. Start with Pools and Many.
package sample
