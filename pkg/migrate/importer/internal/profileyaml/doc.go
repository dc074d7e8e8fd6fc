// Package profileyaml writes profiles and parts of them as YAML for readers: in the order of the
// documentation, with texts as blocks. Start with Write.
package profileyaml
