// Package profile reads profiles and overlays from files, strictly and with line numbers,
// and computes their digests.
//
// It is pure, as are the packages below it: no cluster, no clock. It never renders a
// template. Package overlay applies overlays to their bases, catalog finds the versions in
// the history of a source, rebase moves overlays to newer bases, version compares versions,
// and strictyaml decodes.
//
// Start with DecodeFile in decode.go.
package profile
