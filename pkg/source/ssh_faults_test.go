package source

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// security.md 9, 14: no error contains what an ssh server sends instead of a repository.
func TestSSHAnswers(t *testing.T) {
	host := newHostKey(t)
	for name, c := range map[string]struct {
		run  func(command string, ch ssh.Channel) uint32
		kind error
		says string
	}{
		"no such repository":      {nil, ErrNotFound, "the repository does not exist"},
		"GitHub's answer":         {says("ERROR: Repository not found. " + canary), ErrNotFound, "the repository does not exist"},
		"a line of denial":        {prints(pkt("ERR access denied " + canary)), ErrAuthentication, "has no read access"},
		"a line of something":     {prints(pkt("ERR " + canary)), ErrInvalid, "rejects reading"},
		"nothing":                 {says(canary), ErrUnreachable, "phase refs"},
		"a login shell's welcome": {prints("Welcome, " + canary + "\n"), ErrInvalid, "login shell"},
		"an empty repository":     {prints("0000"), ErrNotFound, "empty"},
		"half a list":             {prints(pkt(id1 + " refs/heads/main\x00ofs-delta\n")[:30]), ErrUnreachable, "phase refs"},
		"an endless list": {prints(pkt(id1+" refs/heads/main\x00\n") + strings.Repeat(pkt(id1+" refs/heads/"+strings.Repeat("x", 60_000)+"\n"), transport.MaxRefsBytes/60_000+1)),
			ErrInvalid, "more than"},
		"SHA-256": {prints(pkt(strings.Repeat("ab", 32)+" HEAD\x00object-format=sha256\n") + "0000"), ErrUnsupported, "SHA-256"},
		"a pack cut short": {func(_ string, ch ssh.Channel) uint32 {
			_, _ = io.WriteString(ch, pkt(id1+" refs/heads/main\x00ofs-delta\n")+"0000")
			_, _ = io.ReadFull(ch, make([]byte, 60))
			_, _ = io.WriteString(ch, pkt("NAK\n")+"PACK\x00\x00\x00\x02\x00\x00\x00\x01")
			return 0
		}, ErrUnreachable, "phase pack"},
		"a pack without end": {func(_ string, ch ssh.Channel) uint32 { // security.md 6
			_, _ = io.WriteString(ch, pkt(id1+" refs/heads/main\x00ofs-delta\n")+"0000")
			_, _ = io.ReadFull(ch, make([]byte, 60))
			_, _ = io.WriteString(ch, pkt("NAK\n")+"PACK\x00\x00\x00\x02\x00\x01\x00\x00")
			_, _ = io.Copy(ch, incompressible())
			return 0
		}, ErrInvalid, "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSSHServer(t, host)
			s.run = c.run
			m := newMirrors(t)
			m.MaxPackBytes = 1 << 20
			_, err := m.Fetch(t.Context(), Remote{URL: s.url("x.git"), Auth: sshAuth(t, s.client, knownHost(s.address, host))})
			wantError(t, err, c.kind, c.says)
			if left := globbed(t, m.Dir, "*/incoming-*"); left != nil {
				t.Errorf("it left %v", left)
			}
		})
	}
	t.Run("no ssh at all", func(t *testing.T) {
		at := listen(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 "+canary+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		})
		_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: "ssh://git@" + at + "/x", Auth: sshAuth(t, newSSHServer(t, host).client, knownHost(at, host)), Timeout: 2 * time.Second})
		wantError(t, err, ErrUnreachable, "phase handshake")
	})
	t.Run("closed at once", func(t *testing.T) {
		at := listen(t, func(net.Conn) {})
		_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: "ssh://git@" + at + "/x", Auth: sshAuth(t, newSSHServer(t, host).client, knownHost(at, host))})
		wantError(t, err, ErrUnreachable, "phase handshake")
	})
}

func prints(text string) func(string, ssh.Channel) uint32 {
	return func(_ string, ch ssh.Channel) uint32 { _, _ = io.WriteString(ch, text); return 0 }
}

func says(text string) func(string, ssh.Channel) uint32 {
	return func(_ string, ch ssh.Channel) uint32 { _, _ = io.WriteString(ch.Stderr(), text); return 1 }
}

// security.md 7: the error for a slow ssh server names the phase that timed out.
func TestSlowSSHServer(t *testing.T) {
	host := newHostKey(t)
	silent := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	drip := func(begin string) func(string, ssh.Channel) uint32 {
		return func(_ string, ch ssh.Channel) uint32 {
			_, _ = io.WriteString(ch, begin)
			for {
				if _, err := io.WriteString(ch, "0"); err != nil {
					return 1
				}
				time.Sleep(50 * time.Millisecond) // as a slow server does
			}
		}
	}
	for name, c := range map[string]struct {
		address string
		run     func(string, ssh.Channel) uint32
		phase   string
	}{
		"an address nobody answers at": {fullBacklog(t), nil, "phase dial"},
		"a port that is silent":        {silent, nil, "phase handshake"},
		"a command without an answer":  {"", func(_ string, ch ssh.Channel) uint32 { _, _ = io.Copy(io.Discard, ch); return 0 }, "phase refs"},
		"references, bit by bit":       {"", drip("fff0"), "phase refs"},
		"a pack, bit by bit":           {"", drip(pkt(id1+" refs/heads/main\x00ofs-delta\n") + "0000" + pkt("NAK\n") + "PACK\x00\x00\x00\x02\x00\x00\x00\x01\xbf\xff\xff\x01x\x9c\x00\xff\xff\x00\x00"), "phase pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSSHServer(t, host)
			s.run = c.run
			if c.address == "" {
				c.address = s.address
			}
			begin := time.Now()
			_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: "ssh://git@" + c.address + "/x", Auth: sshAuth(t, s.client, knownHost(c.address, host)), Timeout: 2 * time.Second})
			wantError(t, err, ErrUnreachable, c.phase, "2s")
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Run("the caller's context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := newMirrors(t).Fetch(ctx, Remote{URL: "ssh://git@" + silent + "/x", Auth: sshAuth(t, newSSHServer(t, host).client, knownHost(silent, host))})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	})
}
