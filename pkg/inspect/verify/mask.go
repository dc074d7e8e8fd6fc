package verify

import (
	"regexp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxShown bounds a value in a difference, in bytes.
const maxShown = 300

// nothing replaces an absent value.
const nothing = "(nothing)"

// hidden replaces a value that may be a credential.
const hidden = "(not shown)"

// Patterns of credentials, applied everywhere: anyone who edits an object may have put a
// credential into it.
var (
	// webToken is a signed JSON web token (RFC 7515, section 7.1). Its first part is an
	// object, so it begins with the base64 of `{"`.
	webToken = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`)
	// bootstrapToken is a bootstrap token:
	// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
	bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	// userInfo ends at the last "@", since a password may contain any unescaped character.
	userInfo   = regexp.MustCompile(`://\S+@`)
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*`)
	// assignedKey matches names with a prefix as well: "AWS_SECRET_ACCESS_KEY=".
	assignedKey = regexp.MustCompile(`(?i)((?:password|passwd|token|secret|credential|access[_-]?key|private[_-]?key)[\w-]*["']?\s*[:=]\s*)\S.*`)
	assigned    = regexp.MustCompile(`(?i)((?:password|passwd|token|secret|api[_-]?key|bearer|authorization)["']?\s*[:= ]\s*)\S.*`)
)

// maskCredentials replaces known credentials and text that looks like one.
func maskCredentials(text string, known ...string) string {
	for _, k := range known {
		if len(k) > 3 { // shorter values are common and not secret
			text = strings.ReplaceAll(text, k, hidden)
		}
	}
	text = privateKey.ReplaceAllString(text, hidden)
	text = userInfo.ReplaceAllString(text, "://"+hidden+"@")
	text = webToken.ReplaceAllString(text, hidden)
	text = bootstrapToken.ReplaceAllString(text, hidden)
	text = assignedKey.ReplaceAllString(text, "${1}"+hidden)
	return assigned.ReplaceAllString(text, "${1}"+hidden)
}

// newDifference returns a difference that is safe to show (security.md 14, 15, 28).
func newDifference(where string, line int, want, have string) *Difference {
	show := func(s string) string {
		if s == "" {
			return nothing
		}
		return redact.Shorten(redact.PrintableLine(maskCredentials(s)), maxShown)
	}
	d := &Difference{Field: redact.PrintableLine(where), Line: line, Expected: show(want), Found: show(have)}
	if d.Expected == d.Found && want != have { // equal after masking, or an invisible character
		d.Found = hidden
	}
	return d
}
