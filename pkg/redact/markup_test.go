package redact

import (
	"strings"
	"testing"
)

// Links, tags and mentions of chats, Markdown and SARIF become plain text (security.md 45).
func TestBreak(t *testing.T) {
	for _, text := range []string{"[a](https://evil.example)", "[a][b]", "<b>", "</b>", "<!channel>", "<!-- a", "<?a", "<@U1>", "<#C1>", "<https://evil.example|a>", "@everyone", "&#64;all", "&#x40;all", "&commat;all"} {
		got := BreakMarkup(text)
		if got == text || strings.ReplaceAll(got, "\u200b", "") != text || BreakMarkup(got) != got {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"https://git.example.com/a?b=c&d=e", "a < b && c > d", "{{ .Token }}", "[::1]:80", "a && b"} {
		if got := BreakMarkup(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
