// Package redact makes untrusted text safe to show: it masks credentials, removes control
// characters, truncates, and prevents text from being a link, a tag or a mention. Start with
// PrintableText, which is for events, conditions and annotations; BreakMarkup is for Markdown.
package redact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the API and of pages, in bytes.
const (
	// MaxEvent is the limit of an event's note:
	// https://github.com/kubernetes/api/blob/v0.36.0/events/v1/types.go
	MaxEvent = 1 << 10
	// MaxCondition is half of the limit of a condition's message, 32 KiB, since an object
	// often has it in two conditions.
	MaxCondition = 16 << 10
	// MaxMessage bounds a message on a page. Conditions can be longer.
	MaxMessage = 4 << 10
	// maxCleanMessage bounds what CleanMessage returns.
	maxCleanMessage = 2 << 10
	// maxClean bounds text from a repository in an annotation.
	maxClean = 512
	// maxSubject bounds the subject of a commit.
	maxSubject = 100
)

// PrintableLine makes text from a repository safe for an annotation, an event and a terminal: no
// control or format characters, a bounded length (security.md 28).
func PrintableLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s)
	return Shorten(s, maxClean)
}

// CleanSubject is PrintableLine for the subject of a commit, at most 100 bytes.
func CleanSubject(s string) string { return Shorten(PrintableLine(s), maxSubject) }

// ShortCommit abbreviates a commit, or the one in the revision of an artifact.
func ShortCommit(commit string) string {
	const digits = 12
	if i := strings.LastIndexAny(commit, ":@"); i >= 0 {
		commit = commit[i+1:]
	}
	return commit[:min(digits, len(commit))]
}

// RemoveControlChars removes control characters from a text for a condition or an event, and
// preserves line breaks (security.md 28).
func RemoveControlChars(s string) string {
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

// Shorten truncates text to at most n bytes, at the end of a character, with an ellipsis.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// ShortenWithCount cuts text after at most n bytes, at the end of a character, and says how many more
// there are.
func ShortenWithCount(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s... (%d bytes more)", s[:cut], len(s)-cut)
}

// PrintableText is PrintableLine for text of several lines and any length: it preserves line breaks
// and truncates to n bytes.
func PrintableText(s string, n int) string {
	return Shorten(strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, s), n)
}

// CleanMessage is PrintableText for an error or another text about an object, without credentials
// and at most 2 KiB long: it can quote untrusted text.
func CleanMessage(s string) string { return PrintableText(Mask(s), maxCleanMessage) }
