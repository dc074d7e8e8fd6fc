// Package publish reads the inputs of rendering for all pools in a cluster, without their
// credentials, for `osm-gitops diff` and `osm-gitops snapshot`, and publishes them as a
// ConfigMap if enabled. It reads no Secrets. Start with Reader.
package publish
