// Package manager wires the controllers: managers and caches of one cluster or two, leases,
// servers of probes and metrics, shutdown, and the dry run. What a controller does is in its
// own package; what flags mean is in cmd/osm-gitops. Start with Run.
package manager
