// Package redact makes text that others wrote fit for people to read: it masks
// credentials, removes control characters, shortens, and keeps text from being a link, a
// tag or a mention where it is shown. Start with Text for events, conditions and
// annotations, with Break for Markdown.
package redact

import (
	"strings"
	"unicode"
)

// Limits of the API, in bytes.
const (
	// MaxEvent is what an event's note may have:
	// https://github.com/kubernetes/api/blob/v0.36.0/events/v1/types.go
	MaxEvent = 1 << 10
	// MaxCondition is half of what a condition's message may have, 32 KiB, since
	// an object often carries it in two conditions.
	MaxCondition = 16 << 10
	// maxClean bounds text from a repository in an annotation.
	maxClean = 512
)

// Clean makes text from a repository fit for an annotation, an event and a
// terminal: no control or format characters, a bounded length (security.md 28).
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s)
	return Shorten(s, maxClean)
}

// Printable takes out of a text for a condition or an event what would do something
// to a terminal instead of being read there. Lines stay lines (security.md 28).
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r != '\n' && !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, s)
}

// Shorten cuts text to at most n bytes, at the end of a character, and says so
// with an ellipsis.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	cut := n - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}

// Text is Clean for text of several lines and any length: line ends stay, and it
// is cut to n bytes.
func Text(s string, n int) string {
	return Shorten(strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s), n)
}
