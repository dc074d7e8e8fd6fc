package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxKeyBytes is more than the size of a Secret.
	maxKeyBytes = 2 << 20 // 2 MiB
	// maxResults limits the number of cached results, each about 300 bytes.
	maxResults = 20_000
	// again is the lifetime of a cached result. A key can expire in this time.
	again = time.Minute
)

// Keys are public keys and their owners. They cache results, so that checking a commit
// again costs a lookup. They are safe for concurrent use.
type Keys struct {
	digest string
	ssh    []sshKey
	pgp    []pgpKey

	mu      sync.Mutex
	results map[question]result
}

type question struct {
	id   string
	old  bool // Times.old, so that the two kinds of results have separate entries
	made int64
}

type result struct {
	at        time.Time
	signature Signature
	err       *Error
}

// ParseKeys parses files of keys by their names, as the values of a Secret. The error
// names every file that cannot be read, so that none is ignored silently.
func ParseKeys(files map[string][]byte) (*Keys, error) {
	k := &Keys{digest: digest(files), results: map[question]result{}}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := k.add(name, files[name]); err != nil {
			failed = append(failed, fmt.Errorf("key %q: %w", name, err))
		}
	}
	if len(failed) == 0 && len(k.ssh)+len(k.pgp) == 0 {
		failed = append(failed, errors.New("no public key found: add an OpenPGP key in ASCII armor, or lines as in ssh-keygen's allowed_signers"))
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return k, nil
}

// Digest identifies a set of keys without parsing it.
func Digest(files map[string][]byte) string { return digest(files) }

// Digest returns the digest of the files with the keys.
func (k *Keys) Digest() string { return k.digest }

func digest(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%d %s %d ", len(name), name, len(files[name]))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (k *Keys) add(name string, data []byte) error {
	if len(data) > maxKeyBytes {
		return fmt.Errorf("it has %d bytes, at most %d are read", len(data), maxKeyBytes)
	}
	text := string(data)
	switch {
	case strings.Contains(text, "PRIVATE KEY"):
		return errors.New("it is a private key: remove it from the Secret, treat it as compromised, and add the public key instead")
	case strings.Contains(text, pgpKeyBegin):
		keys, err := parsePGP(name, text)
		k.pgp = append(k.pgp, keys...)
		return err
	}
	keys, err := parseSSH(name, text)
	k.ssh = append(k.ssh, keys...)
	return err
}

// Verify returns the signer of a payload. The id identifies payload and signature: for an
// id that was checked before, the cached result is returned. The error is an *Error.
func (k *Keys) Verify(id string, payload, signature []byte, at Times) (Signature, error) {
	q := question{id: id, old: at.usesCreationTime(), made: at.Made.Unix()}
	k.mu.Lock()
	known, ok := k.results[q]
	k.mu.Unlock()
	// A negative age means that the clock was set back.
	if age := at.Now.Sub(known.at); ok && age >= 0 && age < again {
		return known.signatureOrError()
	}
	a := result{at: at.Now}
	// Verification takes long, so it needs no lock; two callers can verify the same.
	a.signature, a.err = k.verifyUncached(payload, string(signature), at)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.results) >= maxResults {
		clear(k.results)
	}
	k.results[q] = a
	return a.signatureOrError()
}

// signatureOrError returns the cached signature, or the cached error.
func (a result) signatureOrError() (Signature, error) {
	if a.err != nil {
		return Signature{}, a.err
	}
	return a.signature, nil
}

func (k *Keys) verifyUncached(payload []byte, armored string, at Times) (Signature, *Error) {
	armored = strings.TrimSpace(armored)
	switch {
	case armored == "":
		return Signature{}, wrong(Missing, "it is not signed")
	case strings.HasPrefix(armored, pgpSignatureBegin):
		return k.verifyPGP(payload, armored, at)
	case strings.HasPrefix(armored, sshSignatureBegin):
		return k.verifySSH(payload, armored, at)
	}
	return Signature{}, wrong(Invalid, "its signature is neither OpenPGP's nor SSH's: X.509 is not supported")
}
