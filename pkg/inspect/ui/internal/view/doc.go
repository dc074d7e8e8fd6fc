// Package view has the content of each page of the audit page, from which both HTML and JSON
// are made: a type, and a pure function that makes it from a fleet.Model. The fields and
// their JSON names are public API; docs/ui.md lists them.
//
// It makes no markup. Commit.LoadDifferences alone reads more than the model.
package view
