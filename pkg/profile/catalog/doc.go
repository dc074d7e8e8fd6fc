// Package catalog finds in the history of a source which versions of profiles exist, which
// commit introduced each of them, and which one is current. It never renders a template;
// callers that can render pass a Check.
//
// Start with Catalog and Indexer in catalog.go.
package catalog
