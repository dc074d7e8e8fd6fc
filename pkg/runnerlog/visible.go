package runnerlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// isHidden reports whether r affects a terminal or the surrounding text, or is invisible:
// control characters except tab and line feed, bidirectional marks, and default ignorable
// code points (https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point).
func isHidden(r rune) bool {
	return r != '\n' && r != '\t' && (!unicode.IsGraphic(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point))
}

// WithoutHidden copies text without hidden characters and invalid UTF-8. It buffers an incomplete
// character.
func WithoutHidden(to io.Writer) io.Writer {
	return &escaper{to: to, escape: func(out []byte, _ rune) []byte { return out }}
}

// escaper replaces hidden characters.
type escaper struct {
	to     io.Writer
	escape func(out []byte, r rune) []byte
	begun  []byte // incomplete character
}

// Write returns len(p), or an error.
func (e *escaper) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(e.begun)+len(p))
	rest := append(e.begun, p...)
	for utf8.FullRune(rest) {
		r, size := utf8.DecodeRune(rest)
		if isHidden(r) || r == utf8.RuneError && size == 1 {
			out = e.escape(out, r)
		} else {
			out = append(out, rest[:size]...)
		}
		rest = rest[size:]
	}
	e.begun = append([]byte(nil), rest...)
	if _, err := e.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// YAML encodes v as YAML by its JSON. Strings with a command or a hidden character are
// quoted and escaped; all other values have the bytes of sigs.k8s.io/yaml, which fails on
// C1 controls.
func YAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if text, err = sigsyaml.JSONToYAML(escapeHidden(text)); err != nil || isSafeForLog(text) {
		return text, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	quoteUnsafeScalars(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&Writer{to: &b, colon: ":", bracket: `\x5b`})
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, err
	}
	return escapeHidden(b.Bytes()), nil
}

// escapeHidden escapes hidden characters as in quoted strings of YAML.
func escapeHidden(text []byte) []byte {
	var b bytes.Buffer
	_, _ = (&escaper{to: &b, escape: yamlEscape}).Write(text) // a Buffer returns no error
	return b.Bytes()
}

// isSafeForLog reports whether text has neither a command nor a hidden character.
func isSafeForLog(text []byte) bool {
	var b bytes.Buffer
	_, _ = WithoutHidden(Text(&b)).Write(text) // a Buffer returns no error
	return bytes.Equal(b.Bytes(), text)
}

func quoteUnsafeScalars(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && !isSafeForLog([]byte(n.Value)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quoteUnsafeScalars(child)
	}
}

func yamlEscape(out []byte, r rune) []byte { return fmt.Appendf(out, `\U%08x`, r) }

func jsonEscape(out []byte, r rune) []byte {
	for _, unit := range utf16.AppendRune(nil, r) {
		out = fmt.Appendf(out, `\u%04x`, unit)
	}
	return out
}

func xmlEscape(out []byte, r rune) []byte { return fmt.Appendf(out, "&#x%x;", r) }
