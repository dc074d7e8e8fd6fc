// Package schema holds the JSON Schemas with which an editor checks, completes and
// explains the files of a repository of profiles: OperatingSystemProfile,
// ProfileOverlay and .osm-gitops.yaml.
//
// They are data, made by this package's test from the Go types, their comments and
// docs/template-data.md: `go test ./pkg/schema -update`. A schema says the same as
// the strict decoder wherever draft 07, which editors know best, can say it; what it
// cannot say, `osm-gitops lint` finds.
//
// Start with All in schema.go.
package schema
