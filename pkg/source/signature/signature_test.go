package signature

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

var payload = []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nsubject\n")

// sshKeygen runs the real program.
func sshKeygen(t testing.TB, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ssh-keygen", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ssh-keygen %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// signer is a private key on disk.
type signer struct {
	file   string
	public string // "TYPE KEY", without a comment
}

func newSigner(t testing.TB, options ...string) signer {
	t.Helper()
	s := signer{file: filepath.Join(t.TempDir(), "key")}
	if len(options) == 0 {
		options = []string{"-t", "ed25519"}
	}
	sshKeygen(t, nil, append([]string{"-q", "-N", "", "-C", "comment", "-f", s.file}, options...)...)
	line, err := os.ReadFile(s.file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(line))
	s.public = fields[0] + " " + fields[1]
	return s
}

func (s signer) sign(t testing.TB, data []byte, namespace string) []byte {
	t.Helper()
	return sshKeygen(t, data, "-Y", "sign", "-q", "-n", namespace, "-f", s.file)
}

func keys(t testing.TB, files ...string) *Keys {
	t.Helper()
	k, err := ParseKeys(secret(files...))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func secret(files ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i+1 < len(files); i += 2 {
		m[files[i]] = []byte(files[i+1])
	}
	return m
}

func wantReason(t testing.TB, err error, want Reason, says string) {
	t.Helper()
	var e *Error
	if want == "" && err == nil {
		return
	}
	if !errors.As(err, &e) || e.Reason != want || !strings.Contains(e.Message, says) {
		t.Errorf("got %v, want %s that says %q", err, want, says)
	}
}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func TestSSH(t *testing.T) {
	ada, ben := newSigner(t), newSigner(t, "-t", "rsa", "-b", "2048")
	ecdsa := newSigner(t, "-t", "ecdsa", "-b", "384")
	good := ada.sign(t, payload, "git")
	line := func(rest string) string { return strings.ReplaceAll(rest, "KEY", ada.public) }
	for name, c := range map[string]struct {
		file      string
		signature []byte
		made, now time.Time
		want      Reason
		says      string
		signer    string
	}{
		"a principal":              {file: line("ada@example.com KEY a comment"), signature: good, signer: "ada@example.com"},
		"several principals":       {file: line("# us\n\n\"ada@example.com,ada\" KEY\n"), signature: good, signer: "ada@example.com,ada"},
		"a public key alone":       {file: line("KEY ada@laptop"), signature: good, signer: "file"},
		"RSA with SHA-2":           {file: "ben " + ben.public, signature: ben.sign(t, payload, "git"), signer: "ben"},
		"ECDSA":                    {file: "eva " + ecdsa.public, signature: ecdsa.sign(t, payload, "git"), signer: "eva"},
		"two lines for one key":    {file: line("ada KEY\nops KEY"), signature: good, signer: "ada,ops"},
		"for git among others":     {file: line(`ada namespaces="file,git" KEY`), signature: good, signer: "ada"},
		"for all that begins so":   {file: line(`ada namespaces="g*" KEY`), signature: good, signer: "ada"},
		"not for git":              {file: line(`ada namespaces="file" KEY`), signature: good, want: OfUnknownKey, says: "not for git"},
		"another key":              {file: "ben " + ben.public, signature: good, want: OfUnknownKey, says: "not among the public keys"},
		"another content":          {file: line("ada KEY"), signature: ada.sign(t, []byte("other"), "git"), want: Invalid, says: "does not match this content"},
		"another purpose":          {file: line("ada KEY"), signature: ada.sign(t, payload, "file"), want: Invalid, says: "not made for Git"},
		"no signature":             {file: line("ada KEY"), want: Missing, says: "not signed"},
		"X.509":                    {file: line("ada KEY"), signature: []byte("-----BEGIN SIGNED MESSAGE-----\n"), want: Invalid, says: "X.509"},
		"broken armour":            {file: line("ada KEY"), signature: []byte("-----BEGIN SSH SIGNATURE-----\nxx\n-----END SSH SIGNATURE-----\n"), want: Invalid, says: "cannot be read"},
		"valid":                    {file: line(`ada valid-after="20260601",valid-before="20260602" KEY`), signature: good, signer: "ada"},
		"with hours and Z":         {file: line(`ada valid-after="202606011200Z",valid-before="20260601120001Z" KEY`), signature: good, signer: "ada"},
		"not yet":                  {file: line(`ada valid-after="202606011201" KEY`), signature: good, want: OfExpiredKey, says: "valid from 2026-06-01T12:01:00Z"},
		"no more":                  {file: line(`ada valid-before="202606011159" KEY`), signature: good, want: OfExpiredKey, says: "until 2026-06-01T11:59:00Z"},
		"made in time, ended now":  {file: line(`ada valid-before="20260701" KEY`), signature: good, now: noon.AddDate(0, 2, 0), want: OfExpiredKey, says: "not valid now"},
		"backdated":                {file: line(`ada valid-after="20260501",valid-before="20260701" KEY`), signature: good, made: noon.AddDate(-1, 0, 0), want: OfExpiredKey, says: "not valid when it was made"},
		"one line of two is valid": {file: line("ada valid-before=\"20200101\" KEY\nada-new KEY"), signature: good, signer: "ada-new"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.made.IsZero() {
				c.made = noon
			}
			if c.now.IsZero() {
				c.now = noon
			}
			k := keys(t, "file", c.file)
			for range 2 { // the second time from memory
				got, err := k.Verify("id", payload, c.signature, Times{Made: c.made, Now: c.now})
				wantReason(t, err, c.want, c.says)
				if got.Signer != c.signer {
					t.Errorf("the signer is %q, want %q", got.Signer, c.signer)
				}
				if c.signer != "" && !strings.HasPrefix(got.Key, "ssh SHA256:") {
					t.Errorf("the key is %q", got.Key)
				}
			}
		})
	}
	// A signature that was accepted long ago remains valid when its key expires, but a
	// new one is not.
	k := keys(t, "file", line(`ada valid-before="20260701" KEY`))
	if _, err := k.Verify("id", payload, good, Times{Made: noon}); err != nil {
		t.Error(err)
	}
	if _, err := k.Verify("id", payload, good, Times{Made: noon, Now: noon.AddDate(1, 0, 0)}); err == nil {
		t.Error("an answer about old content was given for new content")
	}
}

// An RSA signature with SHA-1 is one that ssh-keygen does not accept.
func TestSSHWithSHA1(t *testing.T) {
	ben := newSigner(t, "-t", "rsa", "-b", "2048")
	good := ben.sign(t, payload, "git")
	bad := withFormat(t, ben, payload)
	k := keys(t, "a", "ben "+ben.public)
	if _, err := k.Verify("1", payload, good, Times{Made: noon, Now: noon}); err != nil {
		t.Fatal(err)
	}
	_, err := k.Verify("2", payload, bad, Times{Made: noon, Now: noon})
	wantReason(t, err, Invalid, "ssh-keygen does not accept")
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	ada, weak := newSigner(t), newSigner(t, "-t", "rsa", "-b", "1024")
	private, err := os.ReadFile(ada.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, says string }{
		"an authority":          {"ada cert-authority " + ada.public, `key "file": line 1: cert-authority is not supported: list each signer's own key`},
		"nothing":               {"\n# nobody\n", "no public key found"},
		"a private key":         {string(private), "remove it from the Secret"},
		"no key":                {"hello world", "neither an OpenPGP key in ASCII armor nor an SSH key"},
		"a key cut short":       {"ada " + ada.public[:40], "nor an SSH key"},
		"weak":                  {"ada " + weak.public, "an RSA key of 1024 bits is too weak"},
		"an unknown option":     {"ada verify-never " + ada.public, `unknown option "verify-never"`},
		"a malformed time":      {`ada valid-before="tomorrow" ` + ada.public, "YYYYMMDD"},
		"authorized_keys":       {`command="sh" ` + ada.public, "an option of authorized_keys"},
		"its expiry":            {`expiry-time="20200101" ` + ada.public, "an option of authorized_keys"},
		"the second line":       {"ada " + ada.public + "\nben", "line 2:"},
		"a quote without end":   {`"ada ` + ada.public, "no closing quote"},
		"OpenPGP, cut short":    {pgpKeyBegin + "\n\nxx\n", "export it again with gpg --export --armor"},
		"a key that has no end": {`ada namespaces="" ` + ada.public, "namespaces is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKeys(secret("file", c.file))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want what says %q", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "BEGIN OPENSSH") {
				t.Error("the error holds the private key")
			}
		})
	}
	if _, err := ParseKeys(nil); err == nil {
		t.Error("an empty Secret is accepted")
	}
	// An unreadable file is reported, and not in addition that there is no key.
	if _, err := ParseKeys(secret("file", "hello world")); err == nil || strings.Contains(err.Error(), "no public key found") {
		t.Errorf("got %v", err)
	}
	keys(t, "ssh", "ada "+ada.public, "pgp", newPGP(t, 0).public(t)) // one of each
}

func TestPrincipals(t *testing.T) {
	ada := newSigner(t)
	sign := func(file string) Signature {
		t.Helper()
		s, err := keys(t, "ada.pub", file).Verify("id", payload, ada.sign(t, payload, "git"), Times{Made: noon, Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	fingerprint := strings.TrimPrefix(sign("ada "+ada.public).Key, "ssh ")
	for _, c := range []struct {
		file, principal string
		want            bool
	}{
		{"ada@example.com KEY", "ada@example.com", true},
		{"ada@example.com,ada KEY", "ada", true},
		{"ada@example.com KEY", "Ada@example.com", false},
		{"*@example.com KEY", "ada@example.com", true},
		{"*@example.com KEY", "*@example.com", true},
		{"*@example.com,!eve@example.com KEY", "eve@example.com", false},
		{"ada,!eve KEY", "!eve", false},
		{"a?a KEY", "ada", true},
		{"a?a KEY", "adda", false},
		{"ada KEY", "*", false}, // a principal is not a pattern
		{"ada KEY", fingerprint, true},
		{"ada KEY", strings.ToLower(fingerprint), false},
		{"ada KEY", "ada.pub", false}, // the file can have other lines
		{"KEY", "ada.pub", true},
		{"KEY comment", "comment", false},
		{"ada KEY", "", false},
	} {
		if got := sign(strings.ReplaceAll(c.file, "KEY", ada.public)).IsMadeByAny([]string{"nobody", c.principal}); got != c.want {
			t.Errorf("%q signs as %q: %v", c.file, c.principal, got)
		}
	}
}

// Patterns mean here what they mean to ssh-keygen.
func TestPatternsAsOpenSSH(t *testing.T) {
	ada := newSigner(t)
	signature := ada.sign(t, payload, "git")
	dir := t.TempDir()
	sigFile := filepath.Join(dir, "sig")
	if err := os.WriteFile(sigFile, signature, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"ada@example.com", "*", "*@example.com", "a*a@*.com", "*,!ada*", "!eve,*", "??a@example.com", "a**", "*b", "ada@example.co"} {
		allowed := filepath.Join(dir, "allowed")
		if err := os.WriteFile(allowed, []byte(list+" "+ada.public+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", allowed, "-I", "ada@example.com", "-n", "git", "-s", sigFile)
		cmd.Stdin = bytes.NewReader(payload)
		want := cmd.Run() == nil
		if got := matchList("ada@example.com", list); got != want {
			t.Errorf("%q: %v, ssh-keygen says %v", list, got, want)
		}
	}
}

// pgp is an OpenPGP key made here, so that it can be of any age.
type pgp struct{ *openpgp.Entity }

func newPGP(t testing.TB, lifetime time.Duration) pgp {
	t.Helper()
	e, err := openpgp.NewEntity("Ada", "", "ada@example.com", &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, KeyLifetimeSecs: uint32(lifetime / time.Second), Time: func() time.Time { return noon },
	})
	if err != nil {
		t.Fatal(err)
	}
	return pgp{e}
}

func (p pgp) public(t testing.TB) string {
	t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	if err == nil {
		err = errors.Join(p.Serialize(w), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

func (p pgp) sign(t testing.TB, data []byte, at time.Time, config packet.Config) []byte {
	t.Helper()
	config.Time = func() time.Time { return at }
	var b bytes.Buffer
	if err := openpgp.ArmoredDetachSign(&b, p.Entity, bytes.NewReader(data), &config); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpenPGP(t *testing.T) {
	ada, ben, year := newPGP(t, 0), newPGP(t, 0), newPGP(t, 365*24*time.Hour)
	stolen := newPGP(t, 0)
	later := noon.Add(time.Hour)
	retired := newPGP(t, 0)
	byStolen, byRetired := stolen.sign(t, payload, later, packet.Config{}), retired.sign(t, payload, later, packet.Config{})
	for e, reason := range map[pgp]packet.ReasonForRevocation{stolen: packet.KeyCompromised, retired: packet.KeyRetired} {
		if err := e.RevokeKey(reason, "gone", &packet.Config{Time: func() time.Time { return noon.AddDate(0, 1, 0) }}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		key       string
		signature []byte
		at        Times
		want      Reason
		says      string
	}{
		"good":                     {key: ada.public(t), signature: ada.sign(t, payload, later, packet.Config{})},
		"the second of two blocks": {key: ben.public(t) + ada.public(t), signature: ada.sign(t, payload, later, packet.Config{})},
		"another key":              {key: ben.public(t), signature: ada.sign(t, payload, later, packet.Config{}), want: OfUnknownKey, says: "not among the public keys"},
		"another content":          {key: ada.public(t), signature: ada.sign(t, []byte("x"), later, packet.Config{}), want: Invalid, says: "does not match this content"},
		"before it expires":        {key: year.public(t), signature: year.sign(t, payload, later, packet.Config{})},
		"a key that has expired":   {key: year.public(t), signature: year.sign(t, payload, later, packet.Config{}), at: Times{Now: noon.AddDate(2, 0, 0)}, want: OfExpiredKey, says: "has expired"},
		"long ago, expired since":  {key: year.public(t), signature: year.sign(t, payload, later, packet.Config{}), at: Times{Made: noon.AddDate(2, 0, 0)}},
		"a signature that expired": {key: ada.public(t), signature: ada.sign(t, payload, later, packet.Config{SigLifetimeSecs: 60}), at: Times{Now: noon.AddDate(0, 1, 0)}, want: OfExpiredKey, says: "has expired"},
		"made in the future":       {key: ada.public(t), signature: ada.sign(t, payload, noon.AddDate(1, 0, 0), packet.Config{}), want: OfExpiredKey, says: "in the future"},
		"a stolen key":             {key: stolen.public(t), signature: byStolen, at: Times{Now: noon.AddDate(0, 2, 0)}, want: OfRevokedKey, says: "was revoked"},
		"stolen, signed long ago":  {key: stolen.public(t), signature: byStolen, at: Times{Made: later}, want: OfRevokedKey, says: "was revoked"},
		"a key given up":           {key: retired.public(t), signature: byRetired, at: Times{Now: noon.AddDate(0, 2, 0)}, want: OfRevokedKey, says: "was revoked"},
		"given up, signed before":  {key: retired.public(t), signature: byRetired, at: Times{Made: later}},
		"no armour":                {key: ada.public(t), signature: []byte(pgpSignatureBegin + "\nxx"), want: Invalid, says: "cannot be read"},
		"two signatures": {key: ada.public(t), signature: twice(t, ada.sign(t, payload, later, packet.Config{})),
			want: Invalid, says: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.at == (Times{}) {
				c.at = Times{Made: later, Now: later.Add(time.Hour)}
			}
			got, err := keys(t, "file", c.key).Verify("id", payload, c.signature, c.at)
			wantReason(t, err, c.want, c.says)
			if c.want == "" && (got.Signer != "file (Ada <ada@example.com>)" || !strings.HasPrefix(got.Key, "openpgp ")) {
				t.Errorf("signed by %s", got)
			}
		})
	}
	s, err := keys(t, "ada.asc", ada.public(t)).Verify("id", payload, ada.sign(t, payload, later, packet.Config{}), Times{Made: later, Now: later})
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := strings.TrimPrefix(s.Key, "openpgp ")
	for p, want := range map[string]bool{
		fingerprint: true, "0x" + strings.ToLower(fingerprint): true, fingerprint[:20] + "  " + fingerprint[20:]: true, "ada.asc": true,
		fingerprint[24:]: false, "ada@example.com": false, "Ada <ada@example.com>": false, // what the key says of itself
	} {
		if s.IsMadeByAny([]string{p}) != want {
			t.Errorf("signs as %q: %v", p, !want)
		}
	}
}

// twice puts one signature's packet behind itself.
func twice(t *testing.T, armored []byte) []byte {
	t.Helper()
	data, _, err := readPGPSignature(string(armored))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.SignatureType, nil)
	if err == nil {
		_, err = w.Write(append(data, data...))
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A key may end while an answer is in memory.
func TestMemoryDoesNotOutliveAKey(t *testing.T) {
	ada := newPGP(t, time.Hour)
	k := keys(t, "a", ada.public(t))
	signature := ada.sign(t, payload, noon, packet.Config{})
	for after, want := range map[time.Duration]Reason{0: "", time.Minute: "", 59 * time.Minute: "", 2 * time.Hour: OfExpiredKey} {
		_, err := k.Verify("id", payload, signature, Times{Made: noon, Now: noon.Add(after)})
		wantReason(t, err, want, "")
	}
	if _, err := k.Verify("id", payload, signature, Times{Made: noon, Now: noon.Add(58 * time.Minute)}); err != nil {
		t.Error(err)
	}
	_, err := k.Verify("id", payload, signature, Times{Made: noon, Now: noon.Add(time.Hour + time.Second)})
	wantReason(t, err, OfExpiredKey, "")
}

func FuzzParseKeys(f *testing.F) {
	for _, s := range []string{"ada ssh-ed25519 AAAA", `a,b namespaces="x",valid-after="20200101" ssh-rsa AAAA c`, pgpKeyBegin + "\n\nxx\n", "\"", "#"} {
		f.Add(s, s)
	}
	f.Fuzz(func(_ *testing.T, file, armored string) {
		k, err := ParseKeys(secret("a", file))
		if err != nil {
			k = &Keys{results: map[question]result{}}
		}
		for _, begin := range []string{"", pgpSignatureBegin + "\n\n", sshSignatureBegin + "\n"} {
			if _, err := k.Verify("id", payload, []byte(begin+armored), Times{Now: noon}); err == nil {
				panic("a made-up signature is good")
			}
		}
	})
}

// A file of keys is read up to its limit, which is more than a Secret holds, and no byte
// further.
func TestLongestFileOfKeys(t *testing.T) {
	ada := newSigner(t)
	of := func(size int) map[string][]byte {
		text := "ada@example.com " + ada.public + "\n#"
		return secret("keys", text+strings.Repeat("x", size-len(text)))
	}
	if _, err := ParseKeys(of(maxKeyBytes)); err != nil {
		t.Errorf("a file of %d bytes: %v", maxKeyBytes, err)
	}
	if _, err := ParseKeys(of(maxKeyBytes + 1)); err == nil || !strings.Contains(err.Error(), "at most 2097152 are read") {
		t.Errorf("a file of one byte more: %v", err)
	}
}

// A signature reports whether its key has an expiry date. Of several lines with one SSH
// key, one without an expiry date is enough.
func TestEnds(t *testing.T) {
	lasting, year, ada := newPGP(t, 0), newPGP(t, 365*24*time.Hour), newSigner(t)
	until := `valid-before="20991231" ` + ada.public
	at := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		key       string
		signature []byte
		want      bool
	}{
		"an OpenPGP key without an end":  {lasting.public(t), lasting.sign(t, payload, at, packet.Config{}), false},
		"an OpenPGP key for a year":      {year.public(t), year.sign(t, payload, at, packet.Config{}), true},
		"an SSH key without an end":      {"ada " + ada.public, ada.sign(t, payload, "git"), false},
		"an SSH key with an end":         {"ada " + until, ada.sign(t, payload, "git"), true},
		"two lines with an end":          {"ada " + until + "\nben " + until, ada.sign(t, payload, "git"), true},
		"the first line without an end":  {"ada " + ada.public + "\nben " + until, ada.sign(t, payload, "git"), false},
		"the second line without an end": {"ada " + until + "\nben " + ada.public, ada.sign(t, payload, "git"), false},
	} {
		got, err := keys(t, "file", c.key).Verify("id", payload, c.signature, Times{Made: at, Now: at.Add(time.Minute)})
		if err != nil || got.Ends != c.want {
			t.Errorf("%s: it ends: %t (error %v), want %t", name, got.Ends, err, c.want)
		}
	}
}
