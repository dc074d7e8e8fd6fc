// Package schema contains the JSON Schemas with which an editor checks, completes and
// explains the files of a profile repository: OperatingSystemProfile, ProfileOverlay and
// .osm-gitops.yaml.
//
// This package's test generates them from the Go types, their comments and
// docs/template-data.md: `go test ./pkg/schema -update`. A schema agrees with the strict
// decoder as far as draft 07, which editors support best, can express it; `osm-gitops lint`
// finds the rest.
//
// Start with All in schema.go.
package schema
