// Command pools measures the controller with many pools on a real control plane:
// `make bench`.
//
// It builds the controller, gives it the rights of deploy/rbac.yaml and profiles
// from Git, and creates pools, a quarter each of ubuntu/aws, ubuntu/openstack,
// ubuntu/hetzner and flatcar/aws. A plain client that makes the same writes and
// computes nothing is the floor, in the same run and on the same control plane. The
// ratios are what counts: the figures themselves are those of a busy machine. It
// ends with 1 where a target is missed.
package main
