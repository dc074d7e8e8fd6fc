// Package matrix generates the pools and settings for which lint renders a profile: each
// supported provider with each supported kubelet, and any two values of any two other
// dimensions together.
//
// Dimensions returns the differences between pools, Pairwise the combinations, and New a pool
// to apply them to.
package matrix
