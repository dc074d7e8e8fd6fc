package source

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// person has an SSH key to sign commits with the real git.
type person struct {
	name, file, public string
}

func newPerson(t testing.TB, name string) person {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return person{name, file, strings.TrimSpace(string(public))}
}

// as runs git so that a person signs the commit or tag.
func (r *repo) as(p person, args ...string) string {
	r.T.Helper()
	return r.git(append([]string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + p.file, "-c", "commit.gpgsign=true"}, args...)...)
}

// commitAs is commit with a signature.
func (r *repo) commitAs(p person, files ...string) Commit {
	r.T.Helper()
	for i := 0; i+1 < len(files); i += 2 {
		r.write(files[i], files[i+1])
	}
	r.git("add", "--all")
	r.as(p, "commit", "--quiet", "--allow-empty", "--message=change")
	return r.head()
}

func allow(t testing.TB, people ...person) *signature.Keys {
	t.Helper()
	var lines strings.Builder
	for _, p := range people {
		lines.WriteString(p.name + " " + p.public + "\n")
	}
	k, err := signature.ParseKeys(map[string][]byte{"allowed_signers": []byte(lines.String())})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// seen is a repository on a server, and a mirror of it.
type seen struct {
	*repo
	server *server
	m      *Mirrors
	remote Remote
}

func newSeen(t testing.TB) *seen {
	t.Helper()
	return &seen{repo: newRepo(t), server: newServer(t), m: newMirrors(t), remote: Remote{Branch: "main", Path: ""}}
}

// fetch pushes everything and fetches it.
func (s *seen) fetch() *Snapshot {
	s.T.Helper()
	s.remote.URL = s.server.pushAll(s.repo, "osps.git")
	return mustFetch(s.T, s.m, s.remote)
}

func (s *seen) verify(d VerificationPolicy) ([]Signed, error) {
	s.T.Helper()
	if d.Now.IsZero() {
		d.Now = time.Now()
	}
	return s.fetch().Verify(s.T.Context(), d)
}

func (s *seen) good(d VerificationPolicy, signers ...string) {
	s.T.Helper()
	got, err := s.verify(d)
	if err != nil {
		s.T.Fatal(err)
	}
	if len(got) != len(signers) {
		s.T.Fatalf("%d signatures %v, want those of %q", len(got), got, signers)
	}
	for i, want := range signers {
		if got[i].Signer != want {
			s.T.Errorf("%s is signed by %q, want %q", got[i].What, got[i].Signer, want)
		}
	}
}

func (s *seen) bad(d VerificationPolicy, reason signature.Reason, says ...string) {
	s.T.Helper()
	got, err := s.verify(d)
	var bad *UnverifiedError
	if !errors.As(err, &bad) {
		s.T.Fatalf("got %v, %v, want %s", got, err, reason)
	}
	if bad.Reason != reason {
		s.T.Errorf("the reason is %s, want %s: %v", bad.Reason, reason, err)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			s.T.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestVerifyHead(t *testing.T) {
	ada, eve := newPerson(t, "ada@example.com"), newPerson(t, "eve@example.com")
	s := newSeen(t)
	keys := allow(t, ada)
	first := s.commitAs(ada, "a.yaml", "1\n")
	s.good(VerificationPolicy{Keys: keys, Head: true}, "ada@example.com")
	s.bad(VerificationPolicy{Keys: allow(t, eve), Head: true}, signature.OfUnknownKey, "commit "+string(first)+` "change" of "Ada <ada@example.com>"`, "add the key to the Secret")
	unsigned := s.commit("a.yaml", "2\n")
	s.bad(VerificationPolicy{Keys: keys, Head: true}, signature.Missing, string(unsigned), "sign it with git commit -S")
	s.commitAs(eve, "a.yaml", "3\n")
	s.bad(VerificationPolicy{Keys: keys, Head: true}, signature.OfUnknownKey)
	s.commitAs(ada, "a.yaml", "4\n")
	s.good(VerificationPolicy{Keys: keys, Head: true}, "ada@example.com") // not a range

	who, err := s.fetch().SignatureOf(t.Context(), first, keys)
	if err != nil || who.Signer != "ada@example.com" || who.What != "commit "+string(first) {
		t.Errorf("the first commit is signed by %v, %v", who, err)
	}
	var none *signature.Error
	if _, err := s.fetch().SignatureOf(t.Context(), unsigned, keys); !errors.As(err, &none) || none.Reason != signature.Missing {
		t.Errorf("the unsigned commit has %v", err)
	}
	if _, err := mustRead(t, Directory{Root: t.TempDir(), Path: "."}).Verify(t.Context(), VerificationPolicy{Keys: keys, Head: true}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a folder is verified: %v", err)
	}
}

// Signatures of commits with any content are valid exactly if git accepts them.
func TestVerifyAsGitDoes(t *testing.T) {
	ada := newPerson(t, "ada@example.com")
	s := newSeen(t)
	allowed := filepath.Join(t.TempDir(), "allowed")
	if err := os.WriteFile(allowed, []byte(ada.name+" "+ada.public+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.commitAs(ada, "a.yaml", "1\n")
	s.git("checkout", "--quiet", "-b", "side")
	s.commitAs(ada, "b.yaml", "1\n")
	s.as(ada, "tag", "--sign", "--message=signed", "side-1")
	s.git("checkout", "--quiet", "main")
	s.commit("c.yaml", "1\n")
	s.as(ada, "merge", "--quiet", "--no-ff", "--message=Merge\n\n-----BEGIN SSH SIGNATURE-----\nno\n-----END SSH SIGNATURE-----", "side-1") // a mergetag
	s.as(ada, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "--message=")
	s.as(ada, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "--quiet", "--allow-empty", "--message=b\xe9")
	s.as(ada, "commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--message=\n\n gpgsig x\n\n\n")
	good := s.git("cat-file", "commit", "HEAD~1")
	write := func(content string) {
		t.Helper()
		id := gitInput(t, s.Dir, strings.NewReader(content), "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
		s.git("update-ref", "refs/heads/forged-"+id[:8], id)
	}
	write(strings.Replace(good, "committer Ben", "committer Eve", 1) + "\n")
	write(strings.Replace(good, "\ngpgsig ", "\nencoding UTF-8\ngpgsig ", 1) + "\n")
	write(strings.Replace(good, "\ngpgsig ", "\ngpgsig-sha256 -----BEGIN SSH SIGNATURE-----\n xx\ngpgsig ", 1) + "\n")
	write(good + "\nmore\n")
	write(strings.Replace(good, "\n -----END", "\n \n -----END", 1) + "\n")
	keys, found := allow(t, ada), map[bool]int{}
	s.fetch()
	for line := range strings.Lines(s.git("rev-list", "--all")) {
		id := strings.TrimSpace(line)
		cmd := exec.CommandContext(t.Context(), "git", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", id)
		cmd.Dir = s.Dir
		want := cmd.Run() == nil
		found[want]++
		at := mustFetch(t, s.m, Remote{URL: s.remote.URL, Commit: Commit(id)})
		_, err := at.Verify(t.Context(), VerificationPolicy{Keys: keys, Head: true, Now: time.Now()})
		if (err == nil) != want {
			t.Errorf("git says %v, we say %v of\n%s", want, err, s.git("cat-file", "commit", id))
		}
	}
	if found[true] < 6 || found[false] < 4 {
		t.Errorf("git found %v: too few to compare", found)
	}
}

// A signature between the header lines of a commit would hide the parents from a reader of the
// first lines, without a change of the signed content.
func TestSignatureBetweenTheLines(t *testing.T) {
	ada := newPerson(t, "ada@example.com")
	s := newSeen(t)
	s.commitAs(ada, "a.yaml", "1\n")
	s.commitAs(ada, "a.yaml", "2\n")
	lines := strings.SplitAfter(s.git("cat-file", "commit", "HEAD")+"\n", "\n")
	var header, sig []string
	for i, line := range lines {
		if strings.HasPrefix(line, "gpgsig ") || len(sig) > 0 && strings.HasPrefix(line, " ") {
			sig = append(sig, line)
		} else {
			header = append(header, lines[i])
		}
	}
	for at := 1; at <= 3; at++ {
		forged := strings.Join(header[:at], "") + strings.Join(sig, "") + strings.Join(header[at:], "")
		_, err := verification.SplitCommit(plumbing.ZeroHash, []byte(forged))
		if (err == nil) != (at > 1) { // after the parents it hides nothing
			t.Errorf("after line %d: %v", at, err)
		}
		id := gitInput(t, s.Dir, strings.NewReader(forged), "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
		s.git("update-ref", "refs/heads/main", id)
		if d := (VerificationPolicy{Keys: allow(t, ada), Head: true}); at == 1 {
			s.bad(d, signature.Invalid, "not where Git puts it")
		} else {
			s.good(d, ada.name)
		}
	}
	if _, err := verification.SplitCommit(plumbing.ZeroHash, []byte(strings.Join(header[:4], "")+strings.Join(sig, "")+strings.Join(sig, "")+strings.Join(header[4:], ""))); err == nil {
		t.Error("two signatures are accepted")
	}
}

func TestVerifyTag(t *testing.T) {
	ada, eve := newPerson(t, "ada@example.com"), newPerson(t, "eve@example.com")
	s := newSeen(t)
	keys := allow(t, ada)
	s.commitAs(eve, "a.yaml", "1\n")
	s.as(ada, "tag", "--sign", "--message=one\n\n-----BEGIN PGP SIGNATURE-----\nin the text", "v1.0.0")
	s.remote = Remote{Tag: "v1.0.0"}
	tag := VerificationPolicy{Keys: keys, Tag: true}
	both := VerificationPolicy{Keys: keys, Tag: true, Head: true}
	s.good(tag, "ada@example.com")
	s.bad(both, signature.OfUnknownKey, "commit ")
	both.Keys = allow(t, ada, eve)
	s.good(both, "ada@example.com", "eve@example.com")

	s.remote = Remote{SemVer: "1.x"}
	s.good(tag, "ada@example.com")
	s.git("tag", "v1.1.0")
	s.bad(tag, signature.Missing, `tag "v1.1.0"`, "lightweight tag", "git tag -s")
	s.git("tag", "--annotate", "--message=unsigned", "v1.2.0")
	s.bad(tag, signature.Missing, `tag "v1.2.0"`, "not signed")
	s.as(eve, "tag", "--sign", "--message=eve's", "v1.3.0")
	s.bad(tag, signature.OfUnknownKey, `tag "v1.3.0" of "Ben <ben@example.com>"`)
	// An old release under a new name has a valid signature, but of another tag name.
	s.git("update-ref", "refs/tags/v1.4.0", s.git("rev-parse", "v1.0.0"))
	s.bad(tag, signature.Invalid, `tag "v1.4.0"`, `the signed tag is "v1.0.0"`)
	forged := strings.Replace(s.git("cat-file", "tag", "v1.0.0")+"\n", "tag v1.0.0", "tag v1.5.0", 1)
	s.git("update-ref", "refs/tags/v1.5.0", gitInput(t, s.Dir, strings.NewReader(forged), "hash-object", "-t", "tag", "-w", "--stdin"))
	s.bad(tag, signature.Invalid, "does not match this content")

	s.remote = Remote{Name: "refs/tags/v1.0.0"}
	s.good(tag, "ada@example.com")
	s.remote = Remote{Branch: "main"}
	if _, err := s.verify(tag); !errors.Is(err, ErrInvalid) {
		t.Errorf("a branch has a signed tag: %v", err)
	}
}

func TestVerifyWithGPG(t *testing.T) {
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("gpg is not installed; signatures made by go-crypto are tested in package signature")
	}
	home, err := os.MkdirTemp("", "gpg") // a short path, because gpg creates a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "gpg", append([]string{"--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("gpg %q: %v", args, err)
		}
		return string(out)
	}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--kill", "gpg-agent").Run() //nolint:errcheck // of this home alone, and it ends without it, too
		os.RemoveAll(home)
	})
	for name, kind := range map[string]string{"ada": "ed25519", "ben": "rsa3072"} {
		run("--quick-generate-key", name+" <"+name+"@example.com>", kind, "sign", "never")
	}
	s := newSeen(t)
	s.write("a.yaml", "1\n")
	s.git("add", "--all")
	s.git("-c", "user.signingkey=ada@example.com", "commit", "--quiet", "--gpg-sign", "--message=one")
	s.git("-c", "user.signingkey=ben@example.com", "tag", "--sign", "--message=one", "v1.0.0")
	both, err := signature.ParseKeys(map[string][]byte{"team.asc": []byte(run("--armor", "--export"))})
	if err != nil {
		t.Fatal(err)
	}
	s.remote = Remote{Tag: "v1.0.0"}
	s.good(VerificationPolicy{Keys: both, Head: true, Tag: true}, "team.asc (ben <ben@example.com>)", "team.asc (ada <ada@example.com>)")
	one, err := signature.ParseKeys(map[string][]byte{"ben.asc": []byte(run("--armor", "--export", "ben@example.com"))})
	if err != nil {
		t.Fatal(err)
	}
	s.bad(VerificationPolicy{Keys: one, Head: true}, signature.OfUnknownKey, "OpenPGP key")
	s.good(VerificationPolicy{Keys: one, Tag: true}, "ben.asc (ben <ben@example.com>)")
}

// Texts from commits are quoted, because an attacker can choose them (security.md 28).
func TestWhatACommitSaysIsQuoted(t *testing.T) {
	s := newSeen(t)
	s.write("a.yaml", "1\n")
	s.git("add", "--all")
	s.git("commit", "--quiet", "--author=\x1b]0;pwned\a\u202eAda <a@b>", "--message=\x1b[31m<script>alert(1)</script>"+strings.Repeat("x", 39001))
	_, err := s.verify(VerificationPolicy{Keys: allow(t, newPerson(t, "ada")), Head: true})
	if err == nil || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x1b\a\u202e") || strings.Contains(err.Error(), "<script") {
		t.Errorf("the error is %q", err)
	}
}
