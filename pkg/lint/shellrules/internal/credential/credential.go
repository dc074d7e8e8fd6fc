// Package credential recognizes credentials in texts: by their format, by the name that they are
// assigned to, and by the placeholders that rendering writes in their place. It never returns
// one, only its position and description. Start with FindByFormat and FindAssigned.
package credential

import (
	"regexp"
	"strings"
)

// Match is the position of a credential.
type Match struct {
	// What describes it: its format, or the name that it is assigned to.
	What string
	// Offset in the text, in bytes.
	Offset int
}

// placeholders matches the texts that rendering writes in place of credentials (design 3.3):
// on a node, the real credential is in the same position. The plain word is the placeholder
// of passwords, and matches only as a complete value.
var placeholders = newPattern(`eyJhbGciOiJub25lIn0\.eyJzdWIiOiJwbGFjZWhvbGRlciJ9\.cGxhY2Vob2xkZXI|\b000000\.0000000000000000\b|cGxhY2Vob2xkZXI6cGxhY2Vob2xkZXI=|placeholder:placeholder@|(?m:[:=][ \t]*["']?placeholder["']?,?[ \t]*$)`,
	"cGxhY2Vob2xkZXI", "000000.0000000000000000", "placeholder")

// credentialFormats matches credentials by formats that are unique to them. A finding names the format
// and never contains the text.
var credentialFormats = []credentialFormat{
	{"a private key", newPattern(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`, "PRIVATE KEY")},
	{"an access key of AWS", newPattern(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`, "AKIA", "ASIA")},
	{"a token of GitHub", newPattern(`\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{40,}\b`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")},
	{"a token of GitLab", newPattern(`\bglpat-[A-Za-z0-9_-]{20,}`, "glpat-")},
	{"a token of Slack", newPattern(`\bxox[abprs]-[A-Za-z0-9-]{20,}`, "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-")},
	{"a JSON web token", newPattern(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}`, "eyJ")},
	{"a URL with a password", newPattern(`\bhttps?://[^/\s"'$@{}:]+:[^/\s"'$@{}]+@[A-Za-z0-9]`, "://")},
}

// credentialFormat is the format of one kind of credential.
type credentialFormat struct {
	what string
	form pattern
}

// FindByFormat finds credentials by their format, without placeholders.
func FindByFormat(text string) []Match {
	var out []Match
	for _, k := range credentialFormats {
		for _, at := range k.form.all(text) {
			if !placeholders.matches(text[at[0]:at[1]]) {
				out = append(out, Match{k.what, at[0]})
			}
		}
	}
	return out
}

// HasPlaceholder reports whether a text contains the placeholder of a credential.
func HasPlaceholder(text string) bool { return placeholders.matches(text) }

// FirstPlaceholder returns the offset of the first placeholder, -1 if there is none.
func FirstPlaceholder(text string) int { return startOffset(placeholders.first(text)) }

// kubeconfigKeys match the keys of credentials in a kubeconfig.
var kubeconfigKeys = regexp.MustCompile(`(?m)^\s*-?\s*(token|password|client-key-data):\s*["']?[^\s"'{$]`)

// FirstOffset returns the offset of a placeholder, a known format or a credential of a kubeconfig; -1 if
// there is none.
func FirstOffset(text string) int {
	at := placeholders.first(text)
	for _, k := range credentialFormats {
		if at == nil {
			at = k.form.first(text)
		}
	}
	if at == nil && strings.Contains(text, "kind: Config") {
		at = kubeconfigKeys.FindStringIndex(text)
	}
	return startOffset(at)
}

func startOffset(at []int) int {
	if at == nil {
		return -1
	}
	return at[0]
}
