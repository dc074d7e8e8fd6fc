// Command pools measures the controller with many pools on a real control plane: `make bench`.
//
// It builds the controller, gives it the rights of deploy/rbac.yaml and profiles from Git, and
// creates pools, a quarter each of ubuntu/aws, ubuntu/openstack, ubuntu/hetzner and flatcar/aws.
// The floor is a plain client that makes the same writes and computes nothing, in the same run and
// on the same control plane. Only the ratios are meaningful: absolute figures depend on the load
// of the machine. It exits with 1 if a target is missed.
package main
