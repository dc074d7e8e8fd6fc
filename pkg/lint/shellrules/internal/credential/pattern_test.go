package credential

import (
	"strings"
	"testing"
)

// TestPatterns: each match of a pattern has one of its words, for each alternative of the
// expressions.
func TestPatterns(t *testing.T) {
	long := strings.Repeat("A1b2", 12)
	patterns := map[string]pattern{"a placeholder": placeholders}
	for _, f := range credentialFormats {
		patterns[f.what] = f.form
	}
	samples := map[string][]string{
		"a placeholder": {
			"eyJhbGciOiJub25lIn0.eyJzdWIiOiJwbGFjZWhvbGRlciJ9.cGxhY2Vob2xkZXI", "000000.0000000000000000",
			"cGxhY2Vob2xkZXI6cGxhY2Vob2xkZXI=", "https://placeholder:placeholder@x", "password: 'placeholder',", "=placeholder",
		},
		"a private key":         {"-----BEGIN PRIVATE KEY-----", "-----BEGIN EC PRIVATE KEY-----", "-----BEGIN PGP PRIVATE KEY BLOCK-----"},
		"an access key of AWS":  {"AKIA0123456789ABCDEF", "ASIA0123456789ABCDEF"},
		"a token of GitHub":     {"ghp_" + long, "gho_" + long, "ghu_" + long, "ghs_" + long, "ghr_" + long, "github_pat_" + long},
		"a token of GitLab":     {"glpat-" + long},
		"a token of Slack":      {"xoxa-" + long, "xoxb-" + long, "xoxp-" + long, "xoxr-" + long, "xoxs-" + long},
		"a JSON web token":      {"eyJ" + long + ".eyJ" + long + "." + long},
		"a URL with a password": {"http://a:b@c", "https://user:password@host.example.com/path"},
	}
	for what, p := range patterns {
		if len(samples[what]) == 0 {
			t.Errorf("%s has no samples", what)
		}
		for _, sample := range samples[what] {
			text := "first line\n" + sample + "\nlast line"
			if at := p.form.FindStringIndex(text); at == nil || !p.matches(text) || p.first(text)[0] != at[0] || len(p.all(text)) != len(p.form.FindAllStringIndex(text, -1)) {
				t.Errorf("%s: %q: the expression matches at %v, the pattern: %v", what, sample, at, p.matches(text))
			}
		}
		if p.matches("echo hello") || p.first("echo hello") != nil || p.all("echo hello") != nil {
			t.Errorf("%s: matches any text", what)
		}
	}
}
