package render

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The reader of a cloud-config is PyYAML, which is YAML 1.1, where `yes`, `0755`
// and `12:30` are no strings. So the style of every scalar is chosen here: plain
// only where no version of YAML sees anything but a string.

// encodeYAML returns a cloud-config with doc as its content.
func encodeYAML(doc *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(cloudConfigHeader)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encoding cloud-config: %w", err)
	}
	return b.Bytes(), nil
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
		c := s[i]
		if !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune(" /_.@+=<>-", rune(c)) {
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
	for line := range strings.SplitSeq(s, "\n") {
		if line != "" && strings.Trim(line, " \t") == "" {
			return false
		}
	}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n', r == '\t', r >= ' ' && r <= '~':
		case r == utf8.RuneError, r < ' ', r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xfffe:
			return false
		}
		i += size
	}
	return true
}
