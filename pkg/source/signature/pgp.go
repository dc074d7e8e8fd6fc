package signature

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

const (
	pgpKeyBegin       = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	pgpSignatureBegin = "-----BEGIN PGP SIGNATURE-----"
	// pgpFingerprintDigits is the length of a version 4 key's fingerprint in hex.
	pgpFingerprintDigits = 40
	// maxSignatureBytes limits the size of one signature without its armor.
	maxSignatureBytes = 64 << 10 // 64 KiB
	// longerThanAnyKey is more than the 32 bits of seconds, 136 years, in which OpenPGP
	// stores the lifetime of a key:
	// https://www.rfc-editor.org/rfc/rfc9580#section-5.2.3.13
	longerThanAnyKey = 150 * 365 * 24 * time.Hour
)

// pgpKey is one key with its subkeys.
type pgpKey struct {
	entity      *openpgp.Entity
	fingerprint string
	file        string
	alone       bool // the only key in its file
}

// parsePGP reads all armored blocks of a file; the usual reader stops after the first.
func parsePGP(file, text string) ([]pgpKey, error) {
	var keys []pgpKey
	for i, block := range strings.Split(text, pgpKeyBegin)[1:] {
		entities, err := openpgp.ReadArmoredKeyRing(strings.NewReader(pgpKeyBegin + block))
		if err != nil {
			return nil, fmt.Errorf("OpenPGP block %d cannot be read (%w): export it again with gpg --export --armor", i+1, err)
		}
		for _, e := range entities {
			keys = append(keys, pgpKey{entity: e, fingerprint: fmt.Sprintf("%X", e.PrimaryKey.Fingerprint), file: file})
		}
	}
	if len(keys) == 1 {
		keys[0].alone = true
	}
	return keys, nil
}

// fileAndIdentity returns the file of the key and the name of its owner in parentheses.
func (k pgpKey) fileAndIdentity() string {
	identity := k.entity.PrimaryIdentity()
	if identity == nil {
		return k.file
	}
	name := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == '(' || r == ')' {
			return -1
		}
		return r
	}, identity.Name)
	return k.file + " (" + fault.Shorten(name) + ")"
}

func (k *Keys) verifyPGP(payload []byte, armored string, at Times) (Signature, *Error) {
	data, id, err := readPGPSignature(armored)
	if err != nil {
		return Signature{}, wrong(Invalid, "its OpenPGP signature cannot be read")
	}
	known := slices.ContainsFunc(k.pgp, func(key pgpKey) bool { return len(openpgp.EntityList{key.entity}.KeysById(id)) > 0 })
	if !known {
		return Signature{}, wrong(OfUnknownKey, "it is signed with OpenPGP key %016X, which is not among the public keys", id)
	}
	var rejection *Error
	// Several keys can have the same id, because it has only 64 bits.
	for _, key := range k.pgp {
		if len(openpgp.EntityList{key.entity}.KeysById(id)) == 0 {
			continue
		}
		sig, err := key.verifyNowOrWhenMade(payload, data, at)
		if err != nil {
			rejection = err
			continue
		}
		s := Signature{Signer: key.fileAndIdentity(), Key: "openpgp " + key.fingerprint, Made: sig.CreationTime, names: []string{key.fingerprint}}
		// If the signature is valid even then, the key has no expiry date.
		_, later := key.verifyAt(payload, data, sig.CreationTime.Add(longerThanAnyKey))
		s.Ends = later != nil
		if key.alone {
			s.names = append(s.names, key.file)
		}
		return s, nil
	}
	return Signature{}, rejection
}

// readPGPSignature returns the one signature packet and the id of its key.
func readPGPSignature(armored string) ([]byte, uint64, error) {
	block, err := armor.Decode(strings.NewReader(armored))
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(block.Body, maxSignatureBytes+1))
	if err != nil || len(data) > maxSignatureBytes {
		return nil, 0, errors.Join(err, errors.New("too long"))
	}
	packets := packet.NewReader(bytes.NewReader(data))
	p, err := packets.Next()
	if err != nil {
		return nil, 0, err
	}
	sig, ok := p.(*packet.Signature)
	if !ok || sig.IssuerKeyId == nil {
		return nil, 0, errors.New("no signature")
	}
	if _, err := packets.Next(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("more than one signature")
	}
	return data, *sig.IssuerKeyId, nil
}

// verifyAt verifies a signature with one key at some time.
func (k pgpKey) verifyAt(payload, data []byte, at time.Time) (*packet.Signature, error) {
	config := &packet.Config{Time: func() time.Time { return at }}
	sig, _, err := openpgp.VerifyDetachedSignature(openpgp.EntityList{k.entity}, bytes.NewReader(payload), bytes.NewReader(data), config)
	return sig, err
}

// verifyNowOrWhenMade verifies a signature with one key, which must be valid now or, for an old
// signature, when it was made. It rejects weak hashes.
func (k pgpKey) verifyNowOrWhenMade(payload, data []byte, at Times) (*packet.Signature, *Error) {
	now := at.Now
	if now.IsZero() {
		now = at.Made
	}
	sig, err := k.verifyAt(payload, data, now)
	if sig != nil && at.usesCreationTime() && (at.Now.IsZero() || !sig.CreationTime.After(at.Now)) { // validity at the time it was made
		_, err = k.verifyAt(payload, data, sig.CreationTime)
	}
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return nil, wrong(OfRevokedKey, "it is signed with OpenPGP key %s, which was revoked", k.fingerprint)
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return nil, wrong(OfExpiredKey, "it is signed with OpenPGP key %s, which has expired", k.fingerprint)
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		return nil, wrong(OfExpiredKey, "its OpenPGP signature of key %s has expired, or was made in the future: is a clock wrong?", k.fingerprint)
	case err != nil:
		return nil, wrong(Invalid, "its OpenPGP signature of key %s does not match this content, or the key is not for signing", k.fingerprint)
	}
	// A signature over a weaker hash can be forged.
	switch sig.Hash {
	case crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512:
	default:
		return nil, wrong(Invalid, "its OpenPGP signature of key %s is made with %s, which is too weak", k.fingerprint, sig.Hash)
	}
	if sig.SigType != packet.SigTypeBinary {
		return nil, wrong(Invalid, "its OpenPGP signature of key %s is not a signature of a document", k.fingerprint)
	}
	return sig, nil
}
