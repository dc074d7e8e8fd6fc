package redact

import "regexp"

// What may be a credential that somebody wrote into a profile by mistake. What comes from
// the cluster is a placeholder already: these patterns are for texts from Git.
var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|$)`)
	assigned   = regexp.MustCompile(`(?im)((?:passw(?:or)?d|passphrase|secret|(?:secret[_-]?)?access[_-]?key|secret[_-]?key|token|api[_-]?key|activation[_-]?key|private[_-]?key|credentials?)["']?[ \t]*[:=][ \t]*["']?)([^\s"'{}$<>|&;()\\/-][^\s"']{5,})`)
	presented  = regexp.MustCompile(`(?i)((?:bearer|basic)[ \t]+)([A-Za-z0-9._~+/=-]{12,})`)
	inURL      = regexp.MustCompile(`(://[^\s/@:"'{}$]*:)([^\s/@"'{}$]+)@`)
)

// Masked stands in place of what may be a credential.
const Masked = "••••••"

// Mask takes out of a text what may be a credential.
func Mask(s string) string {
	s = privateKey.ReplaceAllString(s, "-----BEGIN PRIVATE KEY----- "+Masked)
	s = inURL.ReplaceAllString(s, "${1}"+Masked+"@")
	return presented.ReplaceAllString(assigned.ReplaceAllString(s, "${1}"+Masked), "${1}"+Masked)
}
