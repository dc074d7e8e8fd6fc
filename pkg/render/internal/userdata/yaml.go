package userdata

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
	// marked are the long texts, in the order in which their marks stand.
	marked []markedText
}

// markedText is put in after encoding: base64 in quotes, else as a literal block.
type markedText struct {
	text   string
	base64 bool
}

// minMarked is the length from which a text is put in after encoding. The YAML
// library looks at every character of a scalar three times. In base64 there is
// nothing to see, and in a text of which isBlock is true neither.
const minMarked = 64

// Mark stands for the text of a number. It needs no quotes.
func Mark(i int) string { return MarkPrefix + strconv.Itoa(i) + "." }

const MarkPrefix = "osm-gitops-text-"

func (d *document) mark(m markedText) *yaml.Node {
	d.marked = append(d.marked, m)
	return plain(Mark(len(d.marked) - 1))
}

// base64Text is a scalar for text that is nothing but base64.
func (d *document) base64Text(s string) *yaml.Node {
	if len(s) < minMarked {
		return quoted(s)
	}
	return d.mark(markedText{text: s, base64: true})
}

// text is the content of a file.
func (d *document) text(s string) *yaml.Node {
	if len(s) < minMarked || !isBlock(s) {
		return text(s)
	}
	return d.mark(markedText{text: s})
}

// encode returns the cloud-config.
func (d *document) encode() ([]byte, error) {
	var b documentBuffer
	b.WriteString(Header)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(yamlIndent)
	err := enc.Encode(&d.root)
	if b.full {
		return nil, ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	return d.putIn(b.Bytes())
}

// MaxDocumentBytes is where encoding a document stops, twice what a Secret may hold:
// some characters take four times as much there as in a file, and all of it would be in
// memory.
const MaxDocumentBytes = 2 << 20 // 2 MiB

// ErrTooLarge is returned for a document of more than MaxDocumentBytes.
var ErrTooLarge = fmt.Errorf("the user-data has more than %d bytes", MaxDocumentBytes)

// documentBuffer takes a document up to that.
type documentBuffer struct {
	bytes.Buffer
	full bool
}

func (b *documentBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxDocumentBytes {
		b.full = true
		return 0, ErrTooLarge
	}
	return b.Buffer.Write(p)
}

// yamlIndent is the blanks by which each level is indented.
const yamlIndent = 2

// putIn replaces the marks. They have to be all there is of their kind: a profile
// that contains such a text itself is refused rather than mixed up.
func (d *document) putIn(doc []byte) ([]byte, error) {
	if bytes.Count(doc, []byte(MarkPrefix)) != len(d.marked) {
		return nil, fmt.Errorf("a value contains the text %q, which is reserved: write it otherwise, or encode the file as b64", MarkPrefix)
	}
	out := make([]byte, 0, 2*len(doc))
	for i, m := range d.marked {
		before, after, ok := bytes.Cut(doc, []byte(Mark(i)))
		if !ok {
			return nil, fmt.Errorf("encoding cloud-config: mark %d is missing", i)
		}
		out, doc = append(out, before...), after
		if m.base64 {
			out = append(append(append(out, '\''), m.text...), '\'')
		} else {
			out = appendBlock(out, m.text, keyColumn(before)+yamlIndent)
		}
	}
	return append(out, doc...), nil
}

// keyColumn is where the key, or the item of a list, begins whose value follows.
func keyColumn(before []byte) int {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	column := 0
	for column < len(line) && (line[column] == ' ' || line[column] == '-' && column+1 < len(line) && line[column+1] == ' ') {
		column++
	}
	return column
}

// appendBlock writes a text of which isBlock is true as a literal block scalar,
// https://yaml.org/spec/1.2.2/#812-literal-style.
func appendBlock(out []byte, s string, indent int) []byte {
	out = append(out, '|')
	body, ended := strings.CutSuffix(s, "\n")
	if !ended {
		out = append(out, '-')
	}
	blanks := strings.Repeat(" ", indent)
	for line := range strings.SplitSeq(body, "\n") {
		out = append(out, '\n')
		if line != "" {
			out = append(append(out, blanks...), line...)
		}
	}
	return out
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
		return plain(s)
	}
	return quoted(s)
}

// plain is a string of which isPlain is true. Without a tag the library does not
// ask itself the same question.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

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
