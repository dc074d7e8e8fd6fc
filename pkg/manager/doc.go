// Package manager wires the controllers: managers and caches of one cluster or two, leases,
// servers of probes and metrics, shutdown, and the dry run. Each controller is in its own
// package; cmd/osm-gitops defines the flags. Start with Run.
package manager
