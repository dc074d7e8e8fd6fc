package source

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/osm-gitops/osm-gitops/test/gittest/gitssh"
)

func TestSSH(t *testing.T) {
	host := newHostKey(t)
	s, r, m := newSSHServer(t, host), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n", "noise.bin", noise(100_000))
	s.push(r, "repo.git")
	auth := sshAuth(t, s.client, knownHost(s.address, host))
	remote := Remote{URL: s.url("repo.git"), Auth: auth}
	got := mustFetch(t, m, remote)
	if got.Head != r.head() || string(got.Files[0].Data) != "a: 1\n" || got.Repository != remote.URL {
		t.Errorf("got %+v", got)
	}
	mustFetch(t, m, remote) // unchanged
	for i := range 3 {      // incrementally, also after a rewrite
		if i == 1 {
			r.git("reset", "--quiet", "--hard", "HEAD~1")
		}
		r.commit("a.yaml", fmt.Sprintf("a: %d\n", i+2))
		s.push(r, "repo.git")
		if got := mustFetch(t, m, remote); got.Head != r.head() || string(got.Files[0].Data) != fmt.Sprintf("a: %d\n", i+2) {
			t.Errorf("after a push: %+v", got)
		}
	}
	packs := glob(t, mirrorDir(t, m), "objects/pack/*.pack")
	for _, p := range packs[1:] {
		if info, err := os.Stat(p); err != nil || len(packs) != 4 {
			t.Errorf("%d packs, %v, %v", len(packs), info, err)
		}
	}
	small := 0
	for _, p := range packs {
		if info, err := os.Stat(p); err == nil && info.Size() < 3000 {
			small++
		}
	}
	if small != 3 {
		t.Errorf("%d of %d packs are small: it was fetched whole", small, len(packs))
	}
	if diff := cmp.Diff(mustFetch(t, newMirrors(t), remote), mustFetch(t, m, remote), snapshots); diff != "" {
		t.Error(diff)
	}
	for _, c := range s.commands {
		if c != "git-upload-pack '/repo.git'" {
			t.Errorf("the server was told to run %q", c)
		}
	}
	if left := globbed(t, m.Dir, "*/incoming-*"); left != nil {
		t.Errorf("it left %v", left)
	}
	remote.URL += "/" // the same mirror
	mustFetch(t, m, remote)
	if n := len(globbed(t, m.Dir, "*")); n != 1 {
		t.Errorf("there are %d mirrors", n)
	}
}

func globbed(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Fetch from the ssh server that Flux uses in its tests.
func TestSSHGitTestServer(t *testing.T) {
	s, r := gitssh.New(t, nil), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	git(t, s.Root, "init", "--quiet", "--bare", "--initial-branch=main", "repo.git")
	r.git("push", "--quiet", filepath.Join(s.Root, "repo.git"), "main")
	identity, _ := newIdentity(t, "")
	got := mustFetch(t, newMirrors(t), Remote{URL: s.URL + "/repo.git", Auth: sshAuth(t, identity, s.KnownHosts())})
	if got.Head != r.head() {
		t.Errorf("got %+v", got)
	}
}

// Nothing of the user who runs the process is used: neither keys and agent nor configuration
// and known hosts.
func TestSSHIgnoresTheEnvironment(t *testing.T) {
	host := newHostKey(t)
	s, other, r := newSSHServer(t, host), newSSHServer(t, host), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	home := t.TempDir()
	for name, content := range map[string]string{
		"config":      "Host *\n  Hostname localhost\n  Port " + strings.Split(other.address, ":")[1] + "\n  User root\n  StrictHostKeyChecking no\n",
		"known_hosts": knownHost(s.address, host),
		"id_ed25519":  string(s.client),
	} {
		repoAt(t, home).write(".ssh/"+name, content)
	}
	var agent atomic.Int64
	socket := filepath.Join(home, "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			agent.Add(1)
			c.Close()
		}
	}()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", socket)
	t.Setenv("SSH_KNOWN_HOSTS", filepath.Join(home, ".ssh", "known_hosts"))
	t.Setenv("ALL_PROXY", "socks5://"+other.address)
	t.Setenv("HTTPS_PROXY", "http://"+other.address)

	mustFetch(t, newMirrors(t), Remote{URL: s.url("repo.git"), Auth: sshAuth(t, s.client, knownHost(s.address, host))})
	stranger, _ := newIdentity(t, "")
	_, err = newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("repo.git"), Auth: sshAuth(t, stranger, knownHost(s.address, host))})
	wantError(t, err, ErrAuthentication, "identity")
	_, err = newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("repo.git"), Auth: sshAuth(t, s.client, knownHost("127.0.0.1:1", host))})
	wantError(t, err, ErrHostKey, "unknown")
	if agent.Load() != 0 || other.logins.Load() != 0 || len(other.commands) != 0 {
		t.Errorf("the agent was asked %d times, another host %d times", agent.Load(), other.logins.Load())
	}
}

func TestHostKeys(t *testing.T) {
	host, stranger := newHostKey(t), newHostKey(t)
	old := signerOf(t, newRSA(t))
	s := newSSHServer(t, host, old)
	r := newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	_, port, _ := net.SplitHostPort(s.address)
	public := func(key ssh.Signer) string { return string(ssh.MarshalAuthorizedKey(key.PublicKey())) }
	for name, c := range map[string]struct {
		knownHosts string
		says       []string // empty if the key is trusted
	}{
		"known":                        {knownHost(s.address, host), nil},
		"known by its second key":      {knownHost(s.address, old), nil},
		"known, hashed":                {hashed(s.address) + " " + public(host), nil},
		"known by a wildcard":          {"127.0.0.* " + public(host), nil},
		"known by several lines":       {knownHost(s.address, stranger) + knownHost(s.address, host), nil},
		"unknown":                      {knownHost("127.0.0.1:1", host), []string{"the host is unknown", "SHA256:", "known_hosts"}},
		"another host's line":          {"git.example.com " + public(host), []string{"the host is unknown"}},
		"another port's line":          {"127.0.0.1 " + public(host), []string{"the host is unknown"}},
		"excluded":                     {"127.0.0.*,!127.0.0.1 " + public(host), []string{"the host is unknown"}},
		"changed":                      {"# comment\n" + knownHost(s.address, stranger), []string{"the host key has changed", "line 2", ssh.FingerprintSHA256(host.PublicKey()), ssh.FingerprintSHA256(stranger.PublicKey()), "ask the server's owner"}},
		"revoked":                      {"@revoked * " + public(host) + knownHost(s.address, host), []string{"revoked", "line 1"}},
		"a kind that it does not have": {"[127.0.0.1]:" + port + " " + ecdsaLine, []string{"the host key has changed", "ecdsa-sha2-nistp256"}},
		"an authority's":               {"@cert-authority [127.0.0.1]:" + port + " " + public(host), []string{"the host key has changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.logins.Load()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("repo.git"), Auth: sshAuth(t, s.client, c.knownHosts)})
			if c.says == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, ErrHostKey, append(c.says, s.address, "nothing was sent")...)
			if errors.Is(err, ErrAuthentication) || s.logins.Load() != before {
				t.Errorf("the key was shown to a server that is not trusted: %v", err)
			}
		})
	}
}

// The error for an invalid line that only the library rejects names the line, too.
func TestKnownHostsOfNoUse(t *testing.T) {
	host := newHostKey(t)
	s := newSSHServer(t, host)
	for name, line := range map[string]string{
		"a marker that nobody knows": "@trusted " + knownHost(s.address, host),
		"a hash of another kind":     "|2|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= " + string(ssh.MarshalAuthorizedKey(host.PublicKey())),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("x"), Auth: sshAuth(t, s.client, "# comment\n", line)})
			wantError(t, err, ErrInvalid, "known_hosts cannot be read", "line 2")
		})
	}
	if s.logins.Load() > 0 {
		t.Error("the key was shown")
	}
}

// ecdsaLine is the public key of github.com:
// https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/githubs-ssh-key-fingerprints
const ecdsaLine = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=\n"

func TestHostCertificate(t *testing.T) {
	authority, host := newHostKey(t), newHostKey(t)
	certified := func(principal string) ssh.Signer {
		c := &ssh.Certificate{
			Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{principal},
			ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
		}
		if err := c.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewCertSigner(c, host)
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	r := newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	line := "@cert-authority 127.0.0.* " + string(ssh.MarshalAuthorizedKey(authority.PublicKey()))
	good, bad := newSSHServer(t, certified("127.0.0.1")), newSSHServer(t, certified("other.example.com"))
	good.push(r, "repo.git")
	mustFetch(t, newMirrors(t), Remote{URL: good.url("repo.git"), Auth: sshAuth(t, good.client, line)})
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: bad.url("repo.git"), Auth: sshAuth(t, bad.client, line)})
	wantError(t, err, ErrHostKey, "certificate")
}

func TestEncryptedKey(t *testing.T) {
	host := newHostKey(t)
	s, r := newSSHServer(t, host), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	in := SSHSecret{Identity: sealed(t, s.client, canary), KnownHosts: []byte(knownHost(s.address, host)), Password: []byte(canary)}
	key, err := ParseSSHKey(in)
	if err != nil {
		t.Fatal(err)
	}
	mustFetch(t, newMirrors(t), Remote{URL: s.url("repo.git"), Auth: key})
	in.Password = []byte(canary + "x")
	_, err = ParseSSHKey(in)
	wantError(t, err, ErrInvalid, "password does not decrypt identity")
}

// security.md 5: paths that a shell or git could interpret are rejected.
func TestSSHAddresses(t *testing.T) {

	m := newMirrors(t)
	identity, public := newIdentity(t, "")
	auth := sshAuth(t, identity, "host.invalid "+public)
	for _, raw := range []string{
		"ssh://git@host.invalid/a'b", "ssh://git@host.invalid/a%27b", "ssh://git@host.invalid/a%22b", "ssh://git@host.invalid/$(id)", "ssh://git@host.invalid/%24(id)",
		"ssh://git@host.invalid/a`id`", "ssh://git@host.invalid/a%60id%60", "ssh://git@host.invalid/a;id", "ssh://git@host.invalid/a%3Bid", "ssh://git@host.invalid/a%0Aid",
		"ssh://git@host.invalid/a%00", "ssh://git@host.invalid/a\\b", "ssh://git@host.invalid/a|b", "ssh://git@host.invalid/a b\nc", "ssh://git@host.invalid/", "ssh://git@host.invalid",
		"ssh://git:" + canary + "@host.invalid/x", "ssh://git@host.invalid/x?" + canary, "ssh://git@host.invalid/x#" + canary, "ssh://git@host.invalid:" + canary + "/x",
		"ssh://-oProxyCommand=id/x", "ssh://-l@host.invalid/x", "ssh://git@-oProxyCommand=id/x", "ssh://git@/x", "ssh://git@host%20x/x", "ssh://a%20b@host.invalid/x", "ssh:host.invalid/x",
		"git@host.invalid:--upload-pack=id", "git@host.invalid:-x", "git@-oProxyCommand=id:x", "-l@host.invalid:x", "git@host.invalid:x y", "git@host.invalid:x'y", "git@host.invalid:x;y",
		"git@host.invalid:", "git@host.invalid:/", "host.invalid:x", "C:x", "ext::sh@host.invalid:x", "git:" + canary + "@host.invalid:x", "SSH://git@host.invalid/x",
	} {
		_, err := m.Fetch(t.Context(), Remote{URL: raw, Auth: auth})
		wantError(t, err, ErrInvalid)
	}
	if n := len(globbed(t, m.Dir, "*")); n > 0 {
		t.Errorf("%d mirrors were made", n)
	}
}

// security.md 9: ssh connections have the same address checks as http.
func TestSSHRefusedAddresses(t *testing.T) {
	host := newHostKey(t)
	s := newSSHServer(t, host)
	_, port, _ := net.SplitHostPort(s.address)
	for _, to := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0"} {
		m := newMirrors(t)
		m.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
		_, err := m.Fetch(t.Context(), Remote{URL: "ssh://git@" + to + ":" + port + "/x", Auth: sshAuth(t, s.client, knownHost(s.address, host))})
		wantError(t, err, ErrInvalid, "refusing to connect", "--git-allowed-cidrs")
	}
	if s.logins.Load() > 0 {
		t.Error("it was connected to")
	}
}

// hashed returns an address as OpenSSH writes it with HashKnownHosts.
func hashed(address string) string {
	return knownhosts.HashHostname(knownhosts.Normalize(address))
}
