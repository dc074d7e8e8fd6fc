// Package ignition checks Ignition documents with the parsers that nodes have:
// those of version 3 with upstream's Ignition, those of version 2 with Flatcar's.
//
// Each parser is a program in a module of its own, test/ignition/v3 and v2, built
// once and kept in the user's cache. Nothing here is part of the product.
//
// Start with Validate in validate.go.
package ignition
