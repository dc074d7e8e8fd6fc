package userdata

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The parser of a cloud-config is PyYAML, which implements YAML 1.1, in which `yes`, `0755` and
// `12:30` are not strings. So this file chooses the style of every scalar: plain only if every
// version of YAML decodes it to a string.

// document is a cloud-config that is being written.
type document struct {
	bytes.Buffer
	// encoded is how many of its bytes the library has written.
	encoded int
}

// MaxDocumentBytes limits what the library writes to twice the size of a Secret: some
// characters take four times as much there as in a file, and all of it would be in memory.
const MaxDocumentBytes = 2 << 20 // 2 MiB

// ErrTooLarge is returned for a document of more than MaxDocumentBytes.
var ErrTooLarge = fmt.Errorf("the user-data has more than %d bytes", MaxDocumentBytes)

// Write is for the library.
func (d *document) Write(p []byte) (int, error) {
	if d.encoded += len(p); d.encoded > MaxDocumentBytes {
		return 0, ErrTooLarge
	}
	return d.Buffer.Write(p)
}

// yamlIndent is the number of blanks of each level.
const yamlIndent = 2

// writeNode has the library write a node.
func (d *document) writeNode(n *yaml.Node) error {
	enc := yaml.NewEncoder(d)
	enc.SetIndent(yamlIndent)
	err := enc.Encode(n)
	if err == nil {
		err = enc.Close()
	}
	if d.encoded > MaxDocumentBytes {
		return ErrTooLarge // the library's error has only the text of it
	}
	if err != nil {
		return fmt.Errorf("encoding cloud-config: %w", err)
	}
	return nil
}

// addMapping writes the keys of a mapping at the beginning of lines.
func (d *document) addMapping(m *yaml.Node) error {
	if len(m.Content) == 0 {
		return nil
	}
	return d.writeNode(m)
}

// addFiles writes the list of files. They are nearly all of a document, and the library reads
// every character of a scalar three times and stores each of its events: with the library, one
// rendering of osp-ubuntu takes half as long again and allocates 1.2 MB instead of 0.7
// (BenchmarkRender), which is above its limit of 1.6 ms.
func (d *document) addFiles(files []File) error {
	if len(files) == 0 {
		return nil
	}
	d.WriteString("write_files:\n")
	for _, f := range files {
		if err := d.addFile(f); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) addFile(f File) error {
	d.WriteString("  - path: ")
	if err := d.addValue(f.Path, styleOf(f.Path)); err != nil {
		return err
	}
	d.WriteString("    permissions: ")
	if err := d.addValue(f.permissions, yaml.SingleQuotedStyle); err != nil {
		return err
	}
	if f.encoding != "" {
		d.WriteString("    encoding: ")
		if err := d.addValue(f.encoding, styleOf(f.encoding)); err != nil {
			return err
		}
	}
	d.WriteString("    content: ")
	return d.addValue(f.Content, contentStyle(f))
}

// contentStyle returns the style of a file's content. Nodes of existing pools have these bytes,
// so a text stays in quotes if the library puts it in quotes, which it does if the text is
// short and one of its lines ends with a blank.
func contentStyle(f File) yaml.Style {
	const short = 64
	if f.encoding == "b64" {
		return yaml.SingleQuotedStyle
	}
	style := textStyleOf(f.Content)
	if style == yaml.LiteralStyle && len(f.Content) < short && strings.Contains(f.Content+"\n", " \n") {
		return yaml.DoubleQuotedStyle
	}
	return style
}

// addValue writes the value after a key of a file, with the line's end. The library writes
// values with escapes.
func (d *document) addValue(s string, style yaml.Style) error {
	switch style {
	case plainStyle:
		d.WriteString(s)
	case yaml.SingleQuotedStyle:
		d.WriteByte('\'')
		d.WriteString(strings.ReplaceAll(s, "'", "''"))
		d.WriteByte('\'')
	case yaml.LiteralStyle:
		d.addBlock(s)
	default:
		return d.writeNode(scalarOf(s, style))
	}
	d.WriteByte('\n')
	return nil
}

// addBlock writes a text that satisfies canBeLiteralBlock as a literal block scalar,
// https://yaml.org/spec/1.2.2/#812-literal-style.
func (d *document) addBlock(s string) {
	const indent = "      " // one level deeper than the key
	d.WriteByte('|')
	body, ended := strings.CutSuffix(s, "\n")
	if !ended {
		d.WriteByte('-')
	}
	for line := range strings.SplitSeq(body, "\n") {
		d.WriteByte('\n')
		if line != "" {
			d.WriteString(indent)
			d.WriteString(line)
		}
	}
}

func newMapping(pairs ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Content: make([]*yaml.Node, 0, len(pairs)+4)}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Content = append(m.Content, scalar(pairs[i].(string)), pairs[i+1].(*yaml.Node))
	}
	return m
}

func newBoolean(b bool) *yaml.Node {
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

// plainStyle is the style of scalars without quotes.
const plainStyle yaml.Style = 0

// scalar is a string on one line.
func scalar(s string) *yaml.Node { return scalarOf(s, styleOf(s)) }

// text returns a node for a string of one or more lines.
func text(s string) *yaml.Node { return scalarOf(s, textStyleOf(s)) }

func scalarOf(s string, style yaml.Style) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s, Style: style}
	if style != plainStyle { // without a tag the library does not look whether it is a string
		n.Tag = "!!str"
	}
	return n
}

// styleOf returns the style of a string on one line: single quotes unless a character needs an
// escape.
func styleOf(s string) yaml.Style {
	if isPlain(s) {
		return plainStyle
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return yaml.DoubleQuotedStyle
		}
	}
	return yaml.SingleQuotedStyle
}

// textStyleOf returns the style of a string of one or more lines.
func textStyleOf(s string) yaml.Style {
	switch {
	case canBeLiteralBlock(s):
		return yaml.LiteralStyle
	case strings.Contains(s, "\n"):
		return yaml.DoubleQuotedStyle
	}
	return styleOf(s)
}

// isPlain reports whether every parser decodes a scalar without quotes to that string.
func isPlain(s string) bool {
	if s == "" || s[len(s)-1] == ' ' {
		return false
	}
	if c := s[0]; !isLetter(c) && c != '/' && s != MachineName {
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

// canBeLiteralBlock reports whether s survives as a literal block in every program that processes it. The
// strictest is machine-controller, which empties lines of blanks when it edits the document. An
// indented or empty first line, and several line breaks at the end, depend on indicators that
// parsers interpret differently.
func canBeLiteralBlock(s string) bool {
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
