package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// DecodeSettings reads a file with one YAML document that is not a profile into a struct,
// as strictly as Decode reads profiles and with the same limits. The returned function
// returns the line on which a field begins, as Document.Line does. The error is one or
// more *Problem joined.
func DecodeSettings(path string, data []byte, into any) (lineOf func(field string) int, err error) {
	f := file{path: path}
	d := decoder{file: &f, lines: map[string]int{"": 1}}
	doc := Document{lines: d.lines}
	if len(data) > maxFileBytes {
		f.problem(0, "", fmt.Errorf("has %d bytes, and at most %d are allowed", len(data), maxFileBytes))
		return doc.Line, f.err()
	}
	if i := invalidText(data); i >= 0 {
		f.problem(1+bytes.Count(data[:i], []byte("\n")), "", errors.New("is not UTF-8 text: save it without control characters"))
		return doc.Line, f.err()
	}
	var node, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&node); {
	case errors.Is(err, io.EOF):
		return doc.Line, nil // empty, or comments only
	case err != nil:
		line, err := syntaxError(data, err)
		f.problem(line, "", err)
		return doc.Line, f.err()
	}
	if !errors.Is(dec.Decode(&more), io.EOF) {
		f.problem(more.Line, "", errors.New("has more than one document: merge them into one"))
		return doc.Line, f.err()
	}
	if root := node.Content[0]; !isNull(root) {
		d.value(root, reflect.ValueOf(into).Elem(), "", 0)
	}
	return doc.Line, f.err()
}
