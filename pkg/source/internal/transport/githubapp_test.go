package transport

import "testing"

func TestGitHubURL(t *testing.T) {
	for raw, want := range map[string]string{ // as fluxcd/pkg/auth v0.55.0 takes them
		"":                                  "https://api.github.com",
		"https://api.github.com/":           "https://api.github.com",
		"https://github.example.com":        "https://github.example.com/api/v3",
		"https://github.example.com/api/v3": "https://github.example.com/api/v3",
		"https://x.api.ghe.com":             "https://x.api.ghe.com",
		"https://api.tenant.ghe.com":        "https://api.tenant.ghe.com",
	} {
		got, err := githubURL(raw)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", raw, got, err, want)
		}
	}
}
