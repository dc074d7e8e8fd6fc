package render

import "testing"

// The user-info of a URL is replaced, and nothing else if a parser understands the URL.
// Of any other text all before the last "@" is replaced (security.md 15).
func TestWithoutUserInfo(t *testing.T) {
	const hidden = placeholderUserInfo
	for in, want := range map[string]string{
		"":                                "",
		"https://example.com/a":           "https://example.com/a",
		"https://u:canary@example.com":    "https://" + hidden + "@example.com",
		"https://u:canary@example.com/a":  "https://" + hidden + "@example.com/a",
		"https://canary@example.com/a@b":  "https://" + hidden + "@example.com/a@b",
		"file:///a@b":                     "file:///a@b",
		"https://example.com/a@b":         "https://example.com/a@b",
		"https://example.com?a=b@c":       "https://example.com?a=b@c",
		"https://example.com#b@c":         "https://example.com#b@c",
		"https://u:c%nary@example.com/a":  "https://" + hidden + "@example.com/a",
		"https://u:c%n/ary@example.com/a": "https://" + hidden + "@example.com/a",
		"u:canary@example.com":            hidden + "@example.com",
		"u:canary@x://example.com":        hidden + "@x://example.com",
	} {
		if got := withoutUserInfo(in); got != want {
			t.Errorf("withoutUserInfo(%q) = %q, want %q", in, got, want)
		}
	}
}
