// Package publish reads what rendering reads of all pools in a cluster, without their
// credentials, for `osm-gitops diff` and `osm-gitops snapshot`, and publishes that as a
// ConfigMap where it is asked to. It reads no Secret. Start with Reader.
package publish
