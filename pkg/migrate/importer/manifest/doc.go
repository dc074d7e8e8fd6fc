// Package manifest reads objects with any schema from files of manifests, as kubectl prints them.
// Start with Read.
package manifest
