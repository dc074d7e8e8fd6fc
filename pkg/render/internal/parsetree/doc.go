// Package parsetree reads the parsed trees of templates: it visits their nodes, counts the steps
// of executing them, and finds fields that the data does not have. It executes nothing. Start with
// Walk in tree.go.
package parsetree
