// Package strictyaml decodes YAML into structs by their json tags: it rejects unknown,
// repeated and missing fields, records the line of every field, and lists all problems of a
// file instead of the first. Input is limited in size, nesting and expanded aliases. It does
// not know what a profile means.
//
// Start with Decode in decode.go.
package strictyaml
