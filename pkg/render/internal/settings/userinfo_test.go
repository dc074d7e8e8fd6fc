package settings

import "testing"

// Everything before the last "@" is replaced, except the scheme: a password that is not escaped
// can contain any character, including those after which a parser finds a path, a query or a
// fragment (security.md 15).
func TestWithoutUserInfo(t *testing.T) {
	const hidden = placeholderUserInfo
	for in, want := range map[string]string{
		"":                                "",
		"https://example.com/a":           "https://example.com/a",
		"https://u:canary@example.com":    "https://" + hidden + "@example.com",
		"https://u:canary@example.com/a":  "https://" + hidden + "@example.com/a",
		"HTTPS://u:canary@[fd00::1]:80/a": "HTTPS://" + hidden + "@[fd00::1]:80/a",
		"https://canary@canary/a@b":       "https://" + hidden + "@b",
		"https://canary/a@b":              "https://" + hidden + "@b",
		"https://canary?a=canary@c":       "https://" + hidden + "@c",
		"https://u:1#canary@c ":           "https://" + hidden + "@c ",
		"https://u:c%nary@example.com/a":  "https://" + hidden + "@example.com/a",
		"https://u:c%n/ary@example.com/a": "https://" + hidden + "@example.com/a",
		"u:canary@example.com":            hidden + "@example.com",
		"u:canary@x://example.com":        hidden + "@x://example.com",
	} {
		if got := maskUserInfo(in); got != want {
			t.Errorf("withoutUserInfo(%q) = %q, want %q", in, got, want)
		}
	}
}
