package redact

import (
	"strings"
	"testing"
)

// security.md 28: the text of a commit can contain terminal escapes, HTML, or be endless.
func TestClean(t *testing.T) {
	if got := PrintableLine("a\x1b[31mred\u202e\x00\n<b>"); got != "a[31mred<b>" {
		t.Errorf("got %q", got)
	}
	long := PrintableLine(strings.Repeat("é", 39001))
	if len(long) > maxClean || !strings.HasSuffix(long, "é…") {
		t.Errorf("got %d bytes ending in %q", len(long), long[len(long)-5:])
	}
}

// security.md 28
func TestText(t *testing.T) {
	if got := PrintableText("one\x1b]0;title\a\r\ntwo\u202e", 100); got != "one]0;title\ntwo" {
		t.Errorf("got %q", got)
	}
	if got := PrintableText(strings.Repeat("é", 39001), 39000); len(got) > 39000 || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %d bytes", len(got))
	}
}

// security.md 28
func TestPrintable(t *testing.T) {
	if got := RemoveControlChars("one\n\ttwo\x1b]0;x\a\u202e\u009b"); got != "one\n two]0;x" {
		t.Errorf("got %q", got)
	}
}

func TestExcerpt(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd... (1 bytes more)", "abcé": "abc... (2 bytes more)", "abé": "abé", "日本": "日... (3 bytes more)"} {
		if got := ShortenWithCount(text, 4); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
