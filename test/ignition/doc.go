// Package ignition checks Ignition documents with the parsers of nodes: version 3 with upstream's
// Ignition, version 2 with Flatcar's.
//
// Each parser is a program in its own module, test/ignition/v3 and v2, built once and stored in the
// user's cache. Nothing here is part of the product.
//
// Start with Validate in validate.go.
package ignition
