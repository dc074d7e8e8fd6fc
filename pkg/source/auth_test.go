package source

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestBearerToken(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	ca := newAuthority(t)
	git := proxyTo(t, s.proxy.URL)
	front := ca.serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer "+canary {
			http.Error(w, "who are you, "+req.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, req)
	}))
	m := newMirrors(t)
	mustFetch(t, m, Remote{URL: front.URL + "/repo.git", Auth: &BearerToken{Token: canary}, CA: ca.pem})
	for _, auth := range []Auth{nil, &BearerToken{Token: canary + "x"}, secret} {
		_, err := m.Fetch(t.Context(), Remote{URL: front.URL + "/repo.git", Auth: auth, CA: ca.pem})
		wantError(t, err, ErrAuthentication, "401")
	}
}

func TestOwnCA(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	ca, other := newAuthority(t), newAuthority(t)
	front := ca.serve(proxyTo(t, s.proxy.URL))
	mustFetch(t, newMirrors(t), Remote{URL: front.URL + "/repo.git", CA: ca.pem, Auth: secret})
	mustFetch(t, newMirrors(t), Remote{URL: strings.Replace(front.URL, "127.0.0.1", "localhost", 1) + "/repo.git", CA: ca.pem})
	for name, remote := range map[string]Remote{
		"the system's CAs": {URL: front.URL + "/repo.git"},
		"another CA":       {URL: front.URL + "/repo.git", CA: other.pem},
	} {
		remote.Auth = secret
		before := front.requests.Load()
		_, err := newMirrors(t).Fetch(t.Context(), remote)
		wantError(t, err, ErrUnreachable, "phase TLS", "certificate is not trusted")
		if front.requests.Load() != before {
			t.Errorf("%s: a request was sent to a server that is not trusted", name)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	ca, other := newAuthority(t), newAuthority(t)
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			front := ca.serve(proxyTo(t, s.proxy.URL), wantClients(ca), func(c *tls.Config) { c.MaxVersion = version })
			remote := Remote{URL: front.URL + "/repo.git", CA: ca.pem, Auth: secret, Certificate: ca.certificate()}
			mustFetch(t, newMirrors(t), remote)
			if front.clients.Load() == 0 {
				t.Error("no certificate was shown")
			}
			remote.Certificate = nil
			_, err := newMirrors(t).Fetch(t.Context(), remote)
			wantError(t, err, ErrAuthentication, "phase TLS", "requires a client certificate", "tls.crt")
			remote.Certificate = other.certificate()
			for range 5 { // in TLS 1.3 the alert can be lost: the client then only sees a closed connection
				if _, err = newMirrors(t).Fetch(t.Context(), remote); strings.Contains(err.Error(), "client certificate") {
					break
				}
			}
			wantError(t, err, ErrAuthentication, "phase TLS", "does not accept the client certificate")
		})
	}
}

// security.md 2: neither credentials nor the client certificate are sent to the target of a
// redirect.
func TestRedirectWithClientCertificate(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	ca := newAuthority(t)
	var authorized atomic.Int64
	git := proxyTo(t, s.proxy.URL)
	elsewhere := ca.serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" {
			authorized.Add(1)
		}
		git.ServeHTTP(w, req)
	}), func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	first := ca.serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)+req.URL.String(), http.StatusFound)
	}), func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	for name, auth := range map[string]Auth{"basic": secret, "bearer": &BearerToken{Token: canary}} {
		t.Run(name, func(t *testing.T) {
			mustFetch(t, newMirrors(t), Remote{URL: first.URL + "/repo.git", CA: ca.pem, Auth: auth, Certificate: ca.certificate()})
			if first.clients.Load() == 0 || elsewhere.requests.Load() == 0 {
				t.Fatalf("%d with a certificate here, %d there: the test shows nothing", first.clients.Load(), elsewhere.requests.Load())
			}
			if authorized.Load() > 0 || elsewhere.clients.Load() > 0 {
				t.Errorf("%d requests took credentials to another host, %d the certificate", authorized.Load(), elsewhere.clients.Load())
			}
		})
	}
}

// security.md 14: an error of parsing names the invalid key, and never contains its value.
func TestParsingCredentials(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue(x509.ExtKeyUsageClientAuth)
	otherCert, _ := ca.issue(x509.ExtKeyUsageClientAuth)
	junk := []byte("-----BEGIN " + canary + "-----\n" + canary + "\n-----END " + canary + "-----\n")
	plain, plainPublic := newIdentity(t, "")
	encrypted, _ := newIdentity(t, canary)
	_, otherPublic := newIdentity(t, "")
	endless := manyRounds(t, encrypted, 1<<31)
	hosts := []byte("host.example.com " + plainPublic)
	appKey := newRSA(t) // shared by all cases: generating it is slow
	app := func(change func(*GitHubAppSecret)) error {
		s := GitHubAppSecret{ID: "1", InstallationID: "2", PrivateKey: appKey}
		change(&s)
		_, err := ParseGitHubApp(s)
		return err
	}
	certificate := func(cert, key []byte) error { _, err := ParseCertificate(cert, key); return err }
	ssh := func(s SSHSecret) error { _, err := ParseSSHKey(s); return err }
	proxy := func(s ProxySecret) error { _, err := ParseProxy(s); return err }

	for what, err := range map[string]error{
		"a certificate":         certificate(cert, key),
		"an app":                app(func(*GitHubAppSecret) {}),
		"an app elsewhere":      app(func(s *GitHubAppSecret) { s.BaseURL = "https://github.example.com" }),
		"a key":                 ssh(SSHSecret{Identity: plain, Public: []byte(plainPublic), KnownHosts: hosts}),
		"a key without its pub": ssh(SSHSecret{Identity: plain, KnownHosts: hosts}),
		"an encrypted key":      ssh(SSHSecret{Identity: encrypted, Password: []byte(canary), KnownHosts: hosts}),
		"a comment, CA, hash": ssh(SSHSecret{Identity: plain, KnownHosts: []byte("# comment\n\n@cert-authority *.example.com " + plainPublic +
			"|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= " + plainPublic)}),
		"a proxy": proxy(ProxySecret{Address: "http://proxy.example.com:3128", Username: "u", Password: "p"}),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"no certificate":                {certificate(nil, key), "tls.crt"},
		"no key":                        {certificate(cert, nil), "tls.key"},
		"junk for a certificate":        {certificate(junk, key), "tls.crt"},
		"another one's key":             {certificate(otherCert, key), "belongs"},
		"an app without an id":          {app(func(s *GitHubAppSecret) { s.ID = canary }), "githubAppID"},
		"an app's id below zero":        {app(func(s *GitHubAppSecret) { s.ID = "-1" }), "githubAppID"},
		"an installation as a path":     {app(func(s *GitHubAppSecret) { s.InstallationID = "1/../../" + canary }), "githubAppInstallationID"},
		"junk for an app's key":         {app(func(s *GitHubAppSecret) { s.PrivateKey = junk }), "githubAppPrivateKey"},
		"an app's key of another kind":  {app(func(s *GitHubAppSecret) { s.PrivateKey = key }), "githubAppPrivateKey"},
		"an app's URL with a password":  {app(func(s *GitHubAppSecret) { s.BaseURL = "https://u:" + canary + "@host" }), "githubAppBaseURL"},
		"an app's URL that is a file":   {app(func(s *GitHubAppSecret) { s.BaseURL = "file:///" + canary }), "githubAppBaseURL"},
		"an app's URL that is none":     {app(func(s *GitHubAppSecret) { s.BaseURL = "https://host:" + canary }), "githubAppBaseURL"},
		"no identity":                   {ssh(SSHSecret{KnownHosts: hosts}), "identity"},
		"junk for an identity":          {ssh(SSHSecret{Identity: junk, KnownHosts: hosts}), "identity"},
		"junk, with a password":         {ssh(SSHSecret{Identity: junk, Password: []byte(canary), KnownHosts: hosts}), "identity"},
		"a public key for an identity":  {ssh(SSHSecret{Identity: []byte(plainPublic), KnownHosts: hosts}), "identity"},
		"an encrypted key, no password": {ssh(SSHSecret{Identity: encrypted, KnownHosts: hosts}), "password is missing"},
		"a wrong password":              {ssh(SSHSecret{Identity: encrypted, Password: []byte(canary + "x"), KnownHosts: hosts}), "password does not decrypt identity"},
		"a key of endless work":         {ssh(SSHSecret{Identity: endless, Password: []byte(canary), KnownHosts: hosts}), "2147483648 rounds"},
		"a password for nothing":        {ssh(SSHSecret{Identity: plain, Password: []byte(canary), KnownHosts: hosts}), "not encrypted"},
		"another one's public key":      {ssh(SSHSecret{Identity: plain, Public: []byte(otherPublic), KnownHosts: hosts}), "identity.pub"},
		"junk for a public key":         {ssh(SSHSecret{Identity: plain, Public: junk, KnownHosts: hosts}), "identity.pub"},
		"no known hosts":                {ssh(SSHSecret{Identity: plain}), "known_hosts"},
		"known hosts of comments":       {ssh(SSHSecret{Identity: plain, KnownHosts: []byte("# nothing\n\n")}), "known_hosts"},
		"junk for known hosts":          {ssh(SSHSecret{Identity: plain, KnownHosts: append([]byte("# one\n"), canary...)}), "known_hosts, line 2"},
		"known hosts cut short":         {ssh(SSHSecret{Identity: plain, KnownHosts: hosts[:len(hosts)/2]}), "known_hosts, line 1"},
		"a line without end":            {ssh(SSHSecret{Identity: plain, KnownHosts: append([]byte(strings.Repeat("a,", 50_000)), hosts...)}), "known_hosts, line 1"},
		"no address of a proxy":         {proxy(ProxySecret{}), "address"},
		"a proxy of another kind":       {proxy(ProxySecret{Address: "ftp://" + canary}), "address"},
		"a proxy with a password":       {proxy(ProxySecret{Address: "http://u:" + canary + "@proxy:1"}), "address contains a user"},
		"a proxy with a path":           {proxy(ProxySecret{Address: "http://proxy:1/" + canary}), "address has a path"},
		"a proxy with a query":          {proxy(ProxySecret{Address: "http://proxy:1/?" + canary}), "address has a path, a query"},
		"a proxy without a host":        {proxy(ProxySecret{Address: "http://"}), "address names no host"},
		"a proxy with a port of words":  {proxy(ProxySecret{Address: "http://proxy:" + canary}), "address is not a URL"},
		"a proxy with a line break":     {proxy(ProxySecret{Address: "http://proxy\r\n" + canary}), "address is not a URL"},
		"a proxy's password alone":      {proxy(ProxySecret{Address: "http://proxy", Password: canary}), "username"},
		"a user alone for socks5":       {proxy(ProxySecret{Address: "socks5://proxy", Username: canary}), "password"},
		"a password too long":           {proxy(ProxySecret{Address: "socks5://proxy", Username: "u", Password: strings.Repeat(canary, 30)}), "255"},
		"a CA of a plain proxy":         {proxy(ProxySecret{Address: "http://proxy", CA: ca.pem}), "ca.crt"},
		"junk for a proxy's CA":         {proxy(ProxySecret{Address: "https://proxy", CA: junk}), "ca.crt"},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, c.err, ErrInvalid, c.says) })
	}
}

// manyRounds returns an encrypted key with another number of rounds in its header.
func manyRounds(t *testing.T, identity []byte, rounds uint32) []byte {
	t.Helper()
	block, _ := pem.Decode(identity)
	at := bytes.Index(block.Bytes, []byte("bcrypt")) + len("bcrypt") + 4 + 4 // two lengths, then the salt
	at += int(binary.BigEndian.Uint32(block.Bytes[at-4:]))
	if got := binary.BigEndian.Uint32(block.Bytes[at:]); got != 1 {
		t.Fatalf("the key has %d rounds", got)
	}
	binary.BigEndian.PutUint32(block.Bytes[at:], rounds)
	return pem.EncodeToMemory(block)
}

// Credentials that do not fit the URL are rejected before anything is sent.
func TestCredentialsThatDoNotFit(t *testing.T) {
	ca, m := newAuthority(t), newMirrors(t)
	identity, public := newIdentity(t, "")
	key, err := ParseSSHKey(SSHSecret{Identity: identity, KnownHosts: []byte("h " + public)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		remote Remote
		says   string
	}{
		"nothing for ssh":             {Remote{URL: "ssh://git@host.invalid/x"}, "known_hosts"},
		"a password for ssh":          {Remote{URL: "git@host.invalid:x", Auth: secret}, "known_hosts"},
		"a certificate for ssh":       {Remote{URL: "git@host.invalid:x", Auth: key, Certificate: ca.certificate()}, "ssh uses no certificates"},
		"a CA for ssh":                {Remote{URL: "git@host.invalid:x", Auth: key, CA: ca.pem}, "ssh uses no certificates"},
		"an SSH key for https":        {Remote{URL: "https://host.invalid/x", Auth: key}, "SSH key"},
		"a CA for plain http":         {Remote{URL: "http://host.invalid/x", CA: ca.pem}, "plain http"},
		"a certificate in plain http": {Remote{URL: "http://host.invalid/x", Certificate: ca.certificate()}, "plain http"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Fetch(t.Context(), c.remote)
			wantError(t, err, ErrInvalid, c.says)
		})
	}
}

// security.md 14
func TestCredentialsArePrintedByNobody(t *testing.T) {
	certificate := newAuthority(t).certificate()
	proxy := mustProxy(t, ProxySecret{Address: "http://proxy.example.com", Username: canary, Password: canary})
	app, err := ParseGitHubApp(GitHubAppSecret{ID: "1", InstallationID: "2", PrivateKey: newRSA(t)})
	if err != nil {
		t.Fatal(err)
	}
	identity, public := newIdentity(t, "")
	key := sshAuth(t, identity, "host "+public)
	for _, v := range []any{*secret, secret, BearerToken{Token: canary}, &BearerToken{Token: canary}, *proxy, proxy, *certificate, certificate, *app, app, *key, key} {
		text := strings.ReplaceAll(fmt.Sprintf("%v %+v %#v %s", v, v, v, v), "{...}", "")
		if strings.Contains(text, canary) || strings.ContainsAny(text, "{[") || strings.Contains(text, "0x") { // nothing that %v makes of fields
			t.Errorf("%T is printed as %s", v, text)
		}
	}
}
