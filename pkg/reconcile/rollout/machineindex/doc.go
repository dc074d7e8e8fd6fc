// Package machineindex knows the machines of pools, and for an hour those that were deleted before
// they joined the cluster. It reads Machines and MachineSets from a cache and writes nothing.
// Start with Index.MachinesByPool.
package machineindex
