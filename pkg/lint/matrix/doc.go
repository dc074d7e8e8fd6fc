// Package matrix makes the pools and settings for which a profile is rendered to see
// whether it is right: each provider that it claims with each supported kubelet, and
// any two values of any two other dimensions together.
//
// Dimensions has what differs between pools, Pairwise the combinations, and New a
// pool to apply them to.
package matrix
