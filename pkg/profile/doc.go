// Package profile knows what a profile is: it reads profiles from files,
// strictly and with line numbers, digests them, and finds in the history of a
// source which versions there are, which commit brought each of them, and which
// one is current.
//
// It is pure: no cluster, no clock, no network. It never renders a template;
// whoever can do that hands in a Check.
//
// Start with Decode in decode.go, then Catalogue in catalogue.go.
package profile
