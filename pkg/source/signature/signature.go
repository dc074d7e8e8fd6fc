package signature

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reason says what is wrong with a signature. Each completes "the signature is ...".
type Reason string

// The reasons of an Error.
const (
	// Missing: there is no signature.
	Missing Reason = "Missing"
	// Invalid: it does not match this content, or is of a kind that is not accepted.
	Invalid Reason = "Invalid"
	// OfUnknownKey: it was made with a key that is not among the public keys.
	OfUnknownKey Reason = "OfUnknownKey"
	// OfExpiredKey: its key is not valid yet, or has expired.
	OfExpiredKey Reason = "OfExpiredKey"
	// OfRevokedKey: its key was revoked by the owner.
	OfRevokedKey Reason = "OfRevokedKey"
)

// Error says that an object does not have the required signature.
type Error struct {
	Reason  Reason
	Message string
}

func (e *Error) Error() string { return e.Message }

func wrong(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Signature is a valid signature.
type Signature struct {
	// Signer names the owner of the key: the principals of allowed_signers, or the name
	// of the file with the key; for OpenPGP also the user id of the key, in parentheses.
	Signer string
	// Key is "ssh SHA256:<base64>" or "openpgp <40 hex>".
	Key string
	// Made is when it was made, as claimed by the signer: for OpenPGP by the signature,
	// for SSH, whose signatures have no time, Times.Made.
	Made time.Time
	// Ends reports that the key has an expiry date, in the past or future: after it, only
	// Made distinguishes valid signatures.
	Ends bool

	principals []string // pattern lists of allowed_signers with the key
	names      []string // the key's fingerprint and the name of its file
}

// String returns signer and key.
func (s Signature) String() string { return s.Signer + ", " + s.Key }

// IsMadeByAny reports whether one of some principals made it. A principal is a name that
// allowed_signers lists for the key, or the pattern itself; the fingerprint of a key; or
// the name of the file that has only this key. The user id of an OpenPGP key does not
// count: its creator chooses it freely.
func (s Signature) IsMadeByAny(principals []string) bool {
	for _, p := range principals {
		if slices.ContainsFunc(s.names, func(name string) bool { return name == p || sameFingerprint(name, p) }) {
			return true
		}
		for _, list := range s.principals {
			if matchList(p, list) || slices.Contains(strings.Split(list, ","), p) && !strings.HasPrefix(p, "!") {
				return true
			}
		}
	}
	return false
}

// sameFingerprint compares OpenPGP fingerprints in upper or lower case, with or without
// spaces, with or without 0x.
func sameFingerprint(name, p string) bool {
	p = strings.TrimPrefix(strings.ReplaceAll(p, " ", ""), "0x")
	return len(name) >= pgpFingerprintDigits && strings.Trim(name, "0123456789ABCDEF") == "" && name == strings.ToUpper(p)
}

// Times are the moments at which a key must be valid.
type Times struct {
	// Made is when the commit or tag was made, as it claims. OpenPGP signatures have
	// their own time, which counts instead; SSH signatures have none.
	Made time.Time
	// Now is the current time; zero if it does not matter.
	Now time.Time
	// Old accepts old content: a key that has expired since then remains valid. Its
	// validity must have begun.
	Old bool
}

func (t Times) usesCreationTime() bool { return t.Old || t.Now.IsZero() }

// matchList is OpenSSH's match_pattern_list: the patterns are separated by commas and can
// contain * and ?; a matching pattern after an exclamation mark decides.
func matchList(s, list string) bool {
	found := false
	for p := range strings.SplitSeq(list, ",") {
		p, not := strings.CutPrefix(p, "!")
		if !matchPattern(s, p) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// matchPattern supports * and ?, as in OpenSSH.
func matchPattern(s, p string) bool {
	star, from := -1, 0
	i, j := 0, 0
	for i < len(s) {
		switch {
		case j < len(p) && p[j] == '*':
			star, from = j, i
			j++
		case j < len(p) && (p[j] == '?' || p[j] == s[i]):
			i, j = i+1, j+1
		case star >= 0: // extend the match of the last *
			from++
			i, j = from, star+1
		default:
			return false
		}
	}
	return strings.Trim(p[j:], "*") == ""
}
