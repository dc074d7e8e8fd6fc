package transport

import (
	"net/url"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Location is the address of a repository: over http and https, or over ssh.
type Location struct {
	url        *url.URL    // nil for ssh
	ssh        *sshAddress // nil for http and https
	Repository string      // the same for every spelling of the address
}

// Locate parses a URL that this package can fetch from.
func Locate(raw string, insecure bool) (Location, error) {
	address, canonical, err := parseSSH(raw)
	if err != nil {
		return Location{}, err
	}
	if address != nil {
		return Location{ssh: address, Repository: canonical}, nil
	}
	u, err := parseURL(raw, insecure)
	if err != nil {
		return Location{}, err
	}
	return Location{url: u, Repository: u.String()}, nil
}

// parseURL parses an http or https URL. Errors about its syntax do not quote the URL,
// because it can contain a password.
func parseURL(raw string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "the URL cannot be parsed; write it as https://host/path")
	}
	switch {
	case u.User != nil:
		return nil, fault.New(fault.ErrInvalid, "the URL contains user-info; put credentials into a Secret")
	case u.Scheme == "http" && !insecure:
		return nil, fault.New(fault.ErrInvalid, "plain http is not allowed, use https")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fault.New(fault.ErrInvalid, "the URL must be https://host/path, ssh://user@host/path or user@host:path; other schemes, local paths and remote helpers are rejected")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, fault.New(fault.ErrInvalid, "the URL names no host; write it as https://host/path")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, fault.New(fault.ErrInvalid, "the URL has a query or a fragment, which a repository's URL must not have")
	case strings.ContainsAny(raw, " \t\r\n\\\"'`$;&|<>(){}[]^") && !strings.HasPrefix(u.Host, "["):
		return nil, fault.New(fault.ErrInvalid, "the URL has quotes, spaces or other characters that must be percent-encoded")
	}
	// git ignores a slash at the end of a URL.
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// CleanURL returns the URL that identifies a mirror, over http without user-info; "" if
// the URL is invalid.
func CleanURL(raw string) string {
	if at, err := Locate(raw, true); err == nil && at.ssh != nil {
		return at.Repository
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	u.User = nil
	u, err = parseURL(u.String(), true)
	if err != nil {
		return ""
	}
	return u.String()
}

// ShownURL returns a URL that is safe for messages and status, even if it was rejected.
func ShownURL(raw string) string {
	if at, err := Locate(raw, true); err == nil && at.ssh != nil {
		return fault.Shorten(at.Repository)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return "(unusable URL)"
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return fault.Shorten(clean.String())
}

// CheckAuth rejects credentials that cannot be used with the URL.
func (l Location) CheckAuth(auth Auth, ca []byte, certificate *Certificate) error {
	ssh := l.ssh != nil
	switch {
	case ssh && (auth == nil || !auth.overSSH()):
		return fault.New(fault.ErrInvalid, "a repository over ssh needs a private key (identity) and a list of known hosts (known_hosts): remove other credentials")
	case ssh && (ca != nil || certificate != nil):
		return fault.New(fault.ErrInvalid, "ssh uses no certificates: remove ca.crt, tls.crt and tls.key")
	case !ssh && auth != nil && auth.overSSH():
		return fault.New(fault.ErrInvalid, "an SSH key cannot be used over %s: write the URL as ssh://git@host/path, or set username and password", l.url.Scheme)
	case !ssh && l.url.Scheme != "https" && (ca != nil || certificate != nil):
		return fault.New(fault.ErrInvalid, "plain http uses no certificates: remove ca.crt, tls.crt and tls.key, or use https")
	}
	return nil
}
