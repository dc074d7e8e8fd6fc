package redact

import "regexp"

// Patterns of credentials that were committed in a profile by mistake, for texts from Git.
// Data from the cluster already has placeholders.
var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|$)`)
	assigned   = regexp.MustCompile(`(?im)((?:passw(?:or)?d|passphrase|secret|(?:secret[_-]?)?access[_-]?key|secret[_-]?key|token|api[_-]?key|activation[_-]?key|private[_-]?key|credentials?)["']?[ \t]*[:=][ \t]*["']?)([^\s"'{}$<>|&;()\\/-][^\s"']{5,})`)
	presented  = regexp.MustCompile(`(?i)((?:bearer|basic)[ \t]+)([A-Za-z0-9._~+/=-]{12,})`)
	// webToken is a signed JSON web token (RFC 7515, section 7.1), bootstrapToken one of Kubernetes.
	webToken       = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`)
	bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	inURL          = regexp.MustCompile(`(://[^\s/@:"'{}$]*:)([^\s/@"'{}$]+)@`)
)

// Masked replaces a possible credential.
const Masked = "••••••"

// Mask replaces possible credentials in a text.
func Mask(s string) string {
	s = privateKey.ReplaceAllString(s, "-----BEGIN PRIVATE KEY----- "+Masked)
	s = bootstrapToken.ReplaceAllString(webToken.ReplaceAllString(s, Masked), Masked)
	s = inURL.ReplaceAllString(s, "${1}"+Masked+"@")
	return presented.ReplaceAllString(assigned.ReplaceAllString(s, "${1}"+Masked), "${1}"+Masked)
}
