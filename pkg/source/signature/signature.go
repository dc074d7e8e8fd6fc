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
	// Missing: there is none.
	Missing Reason = "Missing"
	// Invalid: it does not belong to this content, or is none that is accepted.
	Invalid Reason = "Invalid"
	// OfUnknownKey: it was made with a key that is not among the public keys.
	OfUnknownKey Reason = "OfUnknownKey"
	// OfExpiredKey: its key is not valid yet or no more.
	OfExpiredKey Reason = "OfExpiredKey"
	// OfRevokedKey: its key was revoked by whoever has it.
	OfRevokedKey Reason = "OfRevokedKey"
)

// Error says that something is not signed as it has to be.
type Error struct {
	Reason  Reason
	Message string
}

func (e *Error) Error() string { return e.Message }

func wrong(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Signature is a good signature.
type Signature struct {
	// Signer is who made it, in the words of the keys: the principals of
	// allowed_signers, else the name of the file of the key, and for OpenPGP in
	// parentheses what the key says of itself.
	Signer string
	// Key is "ssh SHA256:<base64>" or "openpgp <40 hex>".
	Key string
	// Made is when it was made, by its maker's word: of OpenPGP what the signature says,
	// of SSH, whose signatures hold no time, Times.Made.
	Made time.Time
	// Ends says that the key has an end, in the past or to come: once it is over, nothing
	// but Made tells good from bad.
	Ends bool

	principals []string // pattern lists of allowed_signers that name the key
	names      []string // the key's fingerprint and the name of its file
}

// String names signer and key.
func (s Signature) String() string { return s.Signer + ", " + s.Key }

// By tells whether one of some principals made it. A principal is one that
// allowed_signers lists for the key, as a name or as the pattern itself; a key's
// fingerprint; or the name of the file that has the key alone. What an OpenPGP key
// says of itself does not count: who makes a key writes into it what they like.
func (s Signature) By(principals []string) bool {
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

// sameFingerprint compares as OpenPGP's are written: in any case, in groups or not,
// after 0x or not.
func sameFingerprint(name, p string) bool {
	p = strings.TrimPrefix(strings.ReplaceAll(p, " ", ""), "0x")
	return len(name) >= pgpFingerprintDigits && strings.Trim(name, "0123456789ABCDEF") == "" && name == strings.ToUpper(p)
}

// Times are the moments at which a key has to be valid.
type Times struct {
	// Made is when the commit or tag was made, by its own word. SSH signatures hold
	// no time, OpenPGP's do, and theirs counts instead.
	Made time.Time
	// Now is the present; zero where it does not matter.
	Now time.Time
	// Old judges old content: a key that has expired since is as good as it was. It must
	// have begun.
	Old bool
}

func (t Times) old() bool { return t.Old || t.Now.IsZero() }

// matchList is OpenSSH's match_pattern_list: the patterns are separated by commas,
// know * and ?, and one after an exclamation mark that matches decides.
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

// matchPattern knows * and ?, as OpenSSH does.
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
		case star >= 0: // let the last * take one more
			from++
			i, j = from, star+1
		default:
			return false
		}
	}
	return strings.Trim(p[j:], "*") == ""
}
