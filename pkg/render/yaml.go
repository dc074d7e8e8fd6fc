package render

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The reader of a cloud-config is PyYAML, which is YAML 1.1, where `yes`, `0755`
// and `12:30` are no strings. So the style of every scalar is chosen here: plain
// only where no version of YAML sees anything but a string.

// document is a cloud-config in the making.
type document struct {
	root yaml.Node
	// base64 are the texts of the marks, in the order in which they stand.
	base64 []string
}

// minMarked is the length from which base64 is put in after encoding. The YAML
// library looks at every character of a scalar three times, and most of a
// document is base64, in which there is nothing to see.
const minMarked = 64

// mark stands for the base64 text of a number.
func mark(i int) string { return markPrefix + strconv.Itoa(i) + "-" }

const markPrefix = "-osm-gitops-base64-"

// base64Text is a scalar for text that is nothing but base64.
func (d *document) base64Text(s string) *yaml.Node {
	if len(s) < minMarked {
		return quoted(s)
	}
	d.base64 = append(d.base64, s)
	return quoted(mark(len(d.base64) - 1))
}

// encode returns the cloud-config.
func (d *document) encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(cloudConfigHeader)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&d.root); err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	return d.putIn(b.Bytes())
}

// putIn replaces the marks. They have to be all there is of their kind: a profile
// that contains such a text itself is refused rather than mixed up.
func (d *document) putIn(doc []byte) ([]byte, error) {
	if bytes.Count(doc, []byte(markPrefix)) != len(d.base64) {
		return nil, fmt.Errorf("a file contains the text %q, which is reserved: encode it as b64", markPrefix)
	}
	if len(d.base64) == 0 {
		return doc, nil
	}
	size := len(doc)
	for _, s := range d.base64 {
		size += len(s)
	}
	out := make([]byte, 0, size)
	for i, s := range d.base64 {
		before, after, ok := bytes.Cut(doc, []byte(mark(i)))
		if !ok {
			return nil, fmt.Errorf("encoding cloud-config: mark %d is missing", i)
		}
		out, doc = append(append(out, before...), s...), after
	}
	return append(out, doc...), nil
}

func mapping(pairs ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Content: make([]*yaml.Node, 0, len(pairs)+4)}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Content = append(m.Content, scalar(pairs[i].(string)), pairs[i+1].(*yaml.Node))
	}
	return m
}

func boolean(b bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"}
	if b {
		n.Value = "true"
	}
	return n
}

func stringList(list []string) *yaml.Node {
	if len(list) == 0 {
		return nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Content: make([]*yaml.Node, len(list))}
	for i, s := range list {
		n.Content[i] = text(s)
	}
	return n
}

// scalar is a string on one line.
func scalar(s string) *yaml.Node {
	if isPlain(s) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	}
	return quoted(s)
}

// quoted is a string in quotes: single ones as long as nothing needs an escape.
func quoted(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.SingleQuotedStyle}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			n.Style = yaml.DoubleQuotedStyle
			break
		}
	}
	return n
}

// text is a string of one or more lines.
func text(s string) *yaml.Node {
	if isBlock(s) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.LiteralStyle}
	}
	if strings.Contains(s, "\n") {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	}
	return scalar(s)
}

// isPlain reports whether a scalar without quotes is that string to every reader.
func isPlain(s string) bool {
	if s == "" || s[len(s)-1] == ' ' {
		return false
	}
	if c := s[0]; !isLetter(c) && c != '/' && s != machineName {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case isLetter(c), c >= '0' && c <= '9':
		case c == ' ', c == '/', c == '_', c == '.', c == '@', c == '+', c == '=', c == '<', c == '>', c == '-':
		default:
			return false
		}
	}
	switch strings.ToLower(s) {
	// https://yaml.org/type/bool.html, https://yaml.org/type/null.html
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isBlock reports whether a literal block carries s through every hand it passes.
// The strictest is machine-controller, which empties lines of blanks when it
// edits the document; an indented or empty first line, and several line breaks at
// the end, depend on indicators that parsers disagree about.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || s[0] == ' ' || s[0] == '\t' || s[0] == '\n' || strings.HasSuffix(s, "\n\n") {
		return false
	}
	blanks := false // the line so far is not empty and has only blanks
	for i, r := range s {
		switch {
		case r == '\n':
			if blanks {
				return false
			}
		case r == ' ', r == '\t':
			blanks = blanks || s[i-1] == '\n' // the first line does not begin with one
		case r > ' ' && r <= '~':
			blanks = false
		case r == utf8.RuneError, r < ' ', r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xfffe:
			return false
		default:
			blanks = false
		}
	}
	return !blanks
}
