// Package profile reads profiles from files, strictly and with line numbers, computes
// their digests, and finds in the history of a source which versions exist, which commit
// introduced each of them, and which one is current.
//
// It is pure: no cluster, no clock, no network. It never renders a template; callers that
// can render pass a Check.
//
// Start with Decode in decode.go, then Catalogue in catalogue.go.
package profile
