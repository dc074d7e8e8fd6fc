package location

import (
	"net/url"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Location is the address of a repository: over http and https, or over ssh.
type Location struct {
	HTTP       *url.URL    // nil for ssh
	SSH        *SSHAddress // nil for http and https
	Repository string      // the same for every spelling of the address
}

// Parse parses a URL that can be fetched from.
func Parse(raw string, insecure bool) (Location, error) {
	address, canonical, err := parseSSH(raw)
	if err != nil {
		return Location{}, err
	}
	if address != nil {
		return Location{SSH: address, Repository: canonical}, nil
	}
	u, err := parseURL(raw, insecure)
	if err != nil {
		return Location{}, err
	}
	return Location{HTTP: u, Repository: u.String()}, nil
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

// CanonicalURL returns the URL that identifies a mirror, over http without user-info; "" if
// the URL is invalid.
func CanonicalURL(raw string) string {
	if at, err := Parse(raw, true); err == nil && at.SSH != nil {
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
	if at, err := Parse(raw, true); err == nil && at.SSH != nil {
		return fault.Shorten(at.Repository)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return "(unusable URL)"
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return fault.Shorten(clean.String())
}
