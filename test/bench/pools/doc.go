// Command pools measures the controller with many pools on a real control plane: `make bench`.
//
// It builds the controller, gives it the rights of deploy/rbac.yaml and profiles from Git, and
// creates pools, a quarter each of ubuntu/aws, ubuntu/openstack, ubuntu/hetzner and flatcar/aws.
// A stand-in for operating-system-manager, a plain client that makes that one's requests, runs in
// the same run on a control plane of its own. Only the ratios are meaningful: absolute figures
// depend on the load of the machine. It exits with 1 if a target is missed.
package main
