package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// DecodeFile reads a file with one YAML document that is not a profile into a struct,
// as strictly as profiles and with the same limits. The error is one or more *Problem
// joined.
func DecodeFile(path string, data []byte, into any) (Lines, error) {
	f := ProblemList{Path: path}
	none := Lines{"": 1}
	if len(data) > MaxFileBytes {
		f.Add(0, "", fmt.Errorf("has %d bytes, and at most %d are allowed", len(data), MaxFileBytes))
		return none, f.Err()
	}
	if i := InvalidTextOffset(data); i >= 0 {
		f.Add(1+bytes.Count(data[:i], []byte("\n")), "", errors.New("is not UTF-8 text: save it without control characters"))
		return none, f.Err()
	}
	var node, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&node); {
	case errors.Is(err, io.EOF):
		return none, nil // empty, or comments only
	case err != nil:
		line, err := LocateSyntaxError(data, err)
		f.Add(line, "", err)
		return none, f.Err()
	}
	if !errors.Is(dec.Decode(&more), io.EOF) {
		f.Add(more.Line, "", errors.New("has more than one document: merge them into one"))
		return none, f.Err()
	}
	root := node.Content[0]
	if IsNull(root) {
		return none, nil
	}
	lines := Decode(root, into, &f)
	lines[""] = 1
	return lines, f.Err()
}
