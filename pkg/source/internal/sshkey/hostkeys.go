package sshkey

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// HostKeys are the keys in known_hosts of the server that a key is used with.
type HostKeys struct {
	db   *knownhosts.HostKeyDB
	host string // with the port
	Err  error  // the problem with the server, after Check
	Seen bool   // the server has presented a key
}

// HostKeys returns the keys of a host in known_hosts. The library can only read files: dir
// is for a temporary one.
func (k *Key) HostKeys(dir, host string) (*HostKeys, error) {
	f, err := os.CreateTemp(dir, "incoming-known_hosts-")
	if err != nil {
		return nil, fault.WrapWriteError(fault.PhaseKnownHosts, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(k.knownHosts)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fault.WrapWriteError(fault.PhaseKnownHosts, err)
	}
	db, err := knownhosts.NewDB(f.Name())
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "known_hosts cannot be read: correct %s", lineOf(err, f.Name()))
	}
	return &HostKeys{db: db, host: host}, nil
}

// lineOf finds the line number in the library's error, whose text is not shown.
func lineOf(err error, file string) string {
	_, rest, _ := strings.Cut(err.Error(), file+":")
	number, _, ok := strings.Cut(rest, ":")
	if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
		return "its lines"
	}
	return "line " + number
}

// Algorithms returns the key types to request from the server: those in known_hosts,
// because a server with several keys could otherwise present one that is not listed. None
// means that the server is not listed at all.
func (h *HostKeys) Algorithms() []string {
	safe := ssh.SupportedAlgorithms().HostKeys
	return slices.DeleteFunc(h.db.HostKeyAlgorithms(h.host), func(name string) bool { return !slices.Contains(safe, name) })
}

// Check is an ssh.HostKeyCallback. It records in Seen and Err that it was called and with which
// result.
func (h *HostKeys) Check(host string, remote net.Addr, key ssh.PublicKey) error {
	h.Seen = true
	h.Err = h.explain(h.db.HostKeyCallback()(host, remote, key), key)
	return h.Err
}

func (h *HostKeys) explain(err error, key ssh.PublicKey) error {
	shows := fmt.Sprintf("%s presents the key %s %s", h.host, key.Type(), ssh.FingerprintSHA256(key))
	var mismatch *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return fault.New(fault.ErrHostKey, "the host key is revoked: %s, which known_hosts revokes in line %d; nothing was sent: ask the server's owner for its new key", shows, revoked.Revoked.Line)
	case errors.As(err, &mismatch) && len(mismatch.Want) == 0:
		return fault.New(fault.ErrHostKey, "the host is unknown: %s, and known_hosts has no key for it; nothing was sent: compare the fingerprint with what the server's owner publishes, then add the line that ssh-keyscan prints to known_hosts", shows)
	case errors.As(err, &mismatch):
		want := mismatch.Want[0]
		return fault.New(fault.ErrHostKey, "the host key has changed: %s, and known_hosts has %s %s in line %d; nothing was sent: either the server has a new key, or the connection is intercepted: ask the server's owner before you replace the line", shows, want.Key.Type(), ssh.FingerprintSHA256(want.Key), want.Line)
	}
	// A certificate that is not valid for this host, or has expired.
	return fault.New(fault.ErrHostKey, "the host key is not trusted: %s, a certificate that no authority in known_hosts has signed for this host and time; nothing was sent", shows)
}

// NoCommonKeyError returns the error for a server that has no key of a listed type.
func (h *HostKeys) NoCommonKeyError(theirs []string) error {
	var ours []string
	for _, key := range h.db.HostKeys(h.host) {
		ours = append(ours, key.Type())
	}
	return fault.New(fault.ErrHostKey, "the host key has changed: %s has no key of the types in known_hosts (%s), it has %s; nothing was sent: ask its owner for its current key before you replace the line",
		h.host, strings.Join(ours, ", "), fault.EscapeUnprintable(fault.Shorten(strings.Join(theirs, ", "))))
}
