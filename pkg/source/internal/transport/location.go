package transport

import (
	"net/url"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Location is where a repository is: over http and https, or over ssh.
type Location struct {
	url        *url.URL    // nil for ssh
	ssh        *sshAddress // nil for others
	Repository string      // the same however it was written
}

// Locate accepts what this package can fetch.
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

// parseURL accepts what can be fetched over http. The URL is not quoted in errors
// about its syntax, because a password may be in it.
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
		return nil, fault.New(fault.ErrInvalid, "the URL is none of https://host/path, ssh://user@host/path and user@host:path; other schemes, local paths and remote helpers are refused")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, fault.New(fault.ErrInvalid, "the URL names no host; write it as https://host/path")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, fault.New(fault.ErrInvalid, "the URL has a query or a fragment, which a repository's URL must not have")
	case strings.ContainsAny(raw, " \t\r\n\\\"'`$;&|<>(){}[]^") && !strings.HasPrefix(u.Host, "["):
		return nil, fault.New(fault.ErrInvalid, "the URL has quotes, spaces or other characters that must be percent-encoded")
	}
	// git takes a URL with a slash at its end for the same one.
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// CleanURL is a URL as a mirror of it would be called, over http without
// user-info; "" where there can be none.
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

// ShownURL is a URL fit for messages and status, even when it was refused.
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

// CheckAuth refuses credentials that do not go with the URL.
func (l Location) CheckAuth(auth Auth, ca []byte, certificate *Certificate) error {
	ssh := l.ssh != nil
	switch {
	case ssh && (auth == nil || !auth.overSSH()):
		return fault.New(fault.ErrInvalid, "a repository over ssh is read with a private key (identity) and a list of known hosts (known_hosts), and with nothing else")
	case ssh && (ca != nil || certificate != nil):
		return fault.New(fault.ErrInvalid, "there are no certificates in ssh: remove ca.crt, tls.crt and tls.key")
	case !ssh && auth != nil && auth.overSSH():
		return fault.New(fault.ErrInvalid, "an SSH key is of no use over %s: write the URL as ssh://git@host/path, or give username and password", l.url.Scheme)
	case !ssh && l.url.Scheme != "https" && (ca != nil || certificate != nil):
		return fault.New(fault.ErrInvalid, "there are no certificates in plain http: remove ca.crt, tls.crt and tls.key, or use https")
	}
	return nil
}
