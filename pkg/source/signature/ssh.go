package signature

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

const (
	sshSignatureBegin = "-----BEGIN SSH SIGNATURE-----"
	// sshNamespace is the namespace of Git's signatures:
	// https://git-scm.com/docs/gitformat-signature
	sshNamespace = "git"
	// minRSABits is the minimum that NIST SP 800-131A accepts.
	minRSABits = 2048
)

// sshKey is one line of allowed_signers, or a plain public key.
type sshKey struct {
	key         ssh.PublicKey
	fingerprint string
	file        string
	principals  string // "" for a plain key
	namespaces  string // "" for all
	after       time.Time
	before      time.Time
}

// parseSSH reads lines "PRINCIPALS [OPTIONS] TYPE KEY [COMMENT]", see ALLOWED SIGNERS in
// ssh-keygen(1), and lines "TYPE KEY [COMMENT]".
func parseSSH(file, text string) ([]sshKey, error) {
	var keys []sshKey
	var failed []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := parseSSHLine(line)
		if err != nil {
			failed = append(failed, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		key.file = file
		keys = append(keys, key)
	}
	return keys, errors.Join(failed...)
}

func parseSSHLine(line string) (sshKey, error) {
	var k sshKey
	first, rest, err := cutField(line)
	if err != nil {
		return k, err
	}
	if !isKeyType(first) {
		if isAuthorizedKeysOption(first) {
			return k, fmt.Errorf("%q is an option of authorized_keys, which has no effect here: write PRINCIPAL TYPE KEY as in ssh-keygen's allowed_signers", fault.Shorten(first))
		}
		k.principals, line = first, rest
	}
	key, _, options, after, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(bytes.TrimSpace(after)) > 0 {
		return k, errors.New("it is neither an OpenPGP key in ASCII armor nor an SSH key: write PRINCIPAL TYPE KEY as in ssh-keygen's allowed_signers")
	}
	if err := validateSSHKey(key); err != nil {
		return k, err
	}
	k.key, k.fingerprint = key, ssh.FingerprintSHA256(key)
	for _, o := range options {
		if err := k.parseOption(o); err != nil {
			return k, err
		}
	}
	return k, nil
}

// cutField returns the first field of a line, which can be in double quotes.
func cutField(line string) (field, rest string, err error) {
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		field, rest, ok = strings.Cut(quoted, `"`)
		if !ok || field == "" {
			return "", "", errors.New("the first field has no closing quote")
		}
		return field, strings.TrimLeft(rest, " \t"), nil
	}
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, "", nil
	}
	return line[:end], strings.TrimLeft(line[end:], " \t"), nil
}

func isKeyType(s string) bool {
	switch strings.TrimSuffix(strings.TrimSuffix(s, "@openssh.com"), "-cert-v01") {
	case "ssh-rsa", "ssh-dss", "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
		"sk-ssh-ed25519", "sk-ecdsa-sha2-nistp256":
		return true
	}
	return false
}

// isAuthorizedKeysOption reports options of AUTHORIZED_KEYS FILE FORMAT in sshd(8):
// parsed as principals they would restrict nothing.
func isAuthorizedKeysOption(field string) bool {
	option, _, _ := strings.Cut(field, ",")
	option, _, _ = strings.Cut(option, "=")
	switch strings.ToLower(option) {
	case "agent-forwarding", "cert-authority", "command", "environment", "expiry-time", "from", "no-agent-forwarding",
		"no-port-forwarding", "no-pty", "no-user-rc", "no-x11-forwarding", "permitlisten", "permitopen", "port-forwarding",
		"principals", "pty", "no-touch-required", "verify-required", "restrict", "tunnel", "user-rc", "x11-forwarding",
		"namespaces", "valid-after", "valid-before":
		return true
	}
	return false
}

// validateSSHKey rejects certificates and weak keys, whose signatures OpenSSH would also reject.
func validateSSHKey(key ssh.PublicKey) error {
	if _, isCertificate := key.(*ssh.Certificate); isCertificate {
		return errors.New("certificates are not supported: list the key itself")
	}
	if key.Type() == "ssh-dss" {
		return errors.New("DSA keys are too weak: use ed25519")
	}
	if known, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := known.CryptoPublicKey().(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
			return fmt.Errorf("an RSA key of %d bits is too weak: use ed25519, or RSA of at least %d bits", k.N.BitLen(), minRSABits)
		}
	}
	return nil
}

// parseOption parses one option of a line of allowed signers.
func (k *sshKey) parseOption(text string) error {
	name, value, _ := strings.Cut(text, "=")
	value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	var err error
	switch strings.ToLower(name) {
	case "cert-authority":
		return errors.New("cert-authority is not supported: list each signer's own key")
	case "namespaces":
		if k.namespaces = value; value == "" {
			err = errors.New("namespaces is empty")
		}
	case "valid-after":
		k.after, err = parseUTCTime(value)
	case "valid-before":
		k.before, err = parseUTCTime(value)
	default:
		return fmt.Errorf("unknown option %q: allowed_signers supports namespaces, valid-after and valid-before", fault.Shorten(name))
	}
	return err
}

// parseUTCTime parses YYYYMMDD[HHMM[SS]][Z]. Without Z ssh-keygen uses the time zone of the
// machine; here it is always UTC, so that all controllers agree.
func parseUTCTime(s string) (time.Time, error) {
	digits := strings.TrimSuffix(s, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(digits) != len(layout) {
			continue
		}
		if at, err := time.Parse(layout, digits); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid time %q: write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS in UTC, with or without a trailing Z", fault.Shorten(s))
}

func (k *Keys) verifySSH(payload []byte, armored string, at Times) (Signature, *Error) {
	sig, err := sshsig.Unarmor([]byte(armored))
	if err != nil { // also RSA with SHA-1
		return Signature{}, wrong(Invalid, "its SSH signature cannot be read, or is of a kind that ssh-keygen does not accept either")
	}
	fingerprint := ssh.FingerprintSHA256(sig.PublicKey)
	var found Signature
	var rejection *Error
	for _, entry := range k.ssh {
		if entry.fingerprint != fingerprint {
			continue
		}
		if err := entry.checkNamespaceAndTimes(at); err != nil {
			rejection = err
			continue
		}
		found.Ends = !entry.before.IsZero() && (found.Key == "" || found.Ends) // one line without an expiry date is enough
		found.Key, found.Made = "ssh "+fingerprint, at.Made
		if found.names == nil {
			found.names = []string{fingerprint}
		}
		signer := entry.principals
		if signer == "" {
			signer = entry.file
			found.names = append(found.names, entry.file)
		} else {
			found.principals = append(found.principals, entry.principals)
		}
		if found.Signer != "" {
			signer = found.Signer + "," + signer
		}
		found.Signer = signer
	}
	switch {
	case found.Key == "" && rejection != nil:
		return Signature{}, rejection
	case found.Key == "":
		return Signature{}, wrong(OfUnknownKey, "it is signed with SSH key %s, which is not among the public keys", fingerprint)
	}
	if err := sshsig.Verify(bytes.NewReader(payload), sig, sig.PublicKey, sig.HashAlgorithm, sshNamespace); err != nil {
		if errors.Is(err, sshsig.ErrNamespaceMismatch) {
			return Signature{}, wrong(Invalid, "its SSH signature of key %s was not made for Git", fingerprint)
		}
		return Signature{}, wrong(Invalid, "its SSH signature of key %s does not match this content", fingerprint)
	}
	return found, nil
}

// checkNamespaceAndTimes checks whether a line allows a key to sign at some times.
func (k sshKey) checkNamespaceAndTimes(at Times) *Error {
	if k.namespaces != "" && !matchList(sshNamespace, k.namespaces) {
		return wrong(OfUnknownKey, "it is signed with SSH key %s, which %q can use only for %q, not for git", k.fingerprint, k.principals, k.namespaces)
	}
	if err := k.checkTime(at.Made, "when it was made"); err != nil || at.Now.IsZero() {
		return err
	}
	if at.Old {
		k.before = time.Time{}
	}
	return k.checkTime(at.Now, "now")
}

// checkTime returns an error if the key is not valid at a time, which when describes in the message.
func (k sshKey) checkTime(t time.Time, when string) *Error {
	if !k.after.IsZero() && t.Before(k.after) {
		return wrong(OfExpiredKey, "it is signed with SSH key %s of %q, which is not valid %s: it is valid from %s", k.fingerprint, k.principals, when, k.after.Format(time.RFC3339))
	}
	if !k.before.IsZero() && t.After(k.before) {
		return wrong(OfExpiredKey, "it is signed with SSH key %s of %q, which is not valid %s: it is valid until %s", k.fingerprint, k.principals, when, k.before.Format(time.RFC3339))
	}
	return nil
}
