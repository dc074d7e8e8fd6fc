package source

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Remote is a repository on a server and what to read of it.
type Remote struct {
	// URL is an https URL without user-info; http needs Mirrors.AllowInsecure.
	URL string
	// Branch to follow, or Commit to stay at; at most one. Neither is the branch main.
	Branch string
	Commit Commit
	// Revision is a branch, a tag, a commit or something like HEAD~1, for whoever
	// reads a repository once; in place of Branch and Commit.
	Revision string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Auth is nil for a repository that everyone may read.
	Auth *BasicAuth
	// CA are certificates in PEM to trust instead of the system's; nil for the system's.
	CA []byte
	// Key separates tenants: remotes share a mirror only if URL and Key are equal.
	// It holds whatever decides who may read: namespace, credentials, CA, proxy, as
	// names and digests. It is hashed and never shown.
	Key string
	// MaxAge lets an answer serve that another fetch of the mirror got from the server
	// not longer ago than this: 100 sources of one repository then ask once. It does
	// not bound what is fetched. 0 takes no answer to a question from before the call.
	MaxAge time.Duration
	// MaxFailureAge is the same for a server that could not be reached.
	MaxFailureAge time.Duration
	// Timeout bounds each phase: dial, TLS, refs, pack. 0 is one minute.
	Timeout time.Duration
}

// BasicAuth is a user and a password, which is often a token.
type BasicAuth struct {
	Username string
	Password string
}

// String keeps the password out of logs.
func (BasicAuth) String() string { return "basic auth" }

// GoString keeps the password out of logs.
func (BasicAuth) GoString() string { return "source.BasicAuth{...}" }

// target is a Remote that has been checked.
type target struct {
	Remote
	url   *url.URL
	parts []string     // of the path
	spec  revisionSpec // of the revision
}

// check refuses a remote that is wrong in itself, before anything is sent.
func (r Remote) check(insecure bool) (target, error) {
	u, err := parseURL(r.URL, insecure)
	if err != nil {
		return target{}, err
	}
	parts, err := splitPath(r.Path)
	if err != nil {
		return target{}, err
	}
	if r.Branch != "" && r.Commit != "" {
		return target{}, fail(ErrInvalid, "both a branch and a commit are given; choose one")
	}
	if r.Revision != "" {
		return r.checkRevision(u, parts)
	}
	if r.Commit != "" {
		if _, err := ParseCommit(string(r.Commit)); err != nil {
			return target{}, err
		}
	} else if r.Branch == "" {
		r.Branch = "main"
	}
	if r.Branch != "" && !validRef("refs/heads/"+r.Branch) {
		return target{}, fail(ErrInvalid, "branch %q is no name that Git allows", shorten(r.Branch))
	}
	if r.Timeout <= 0 {
		r.Timeout = defaultTimeout
	}
	return target{Remote: r, url: u, parts: parts}, nil
}

// checkRevision is check for a remote that is read at a revision.
func (r Remote) checkRevision(u *url.URL, parts []string) (target, error) {
	if r.Branch != "" || r.Commit != "" {
		return target{}, fail(ErrInvalid, "a revision is given, and a branch or a commit too; choose one")
	}
	spec, err := parseRevision(r.Revision)
	if err != nil {
		return target{}, err
	}
	if id := strings.ToLower(spec.base); isObjectID(id) {
		r.Commit = Commit(id)
	}
	if r.Timeout <= 0 {
		r.Timeout = defaultTimeout
	}
	return target{Remote: r, url: u, parts: parts, spec: spec}, nil
}

// parseURL accepts what this package can fetch. The URL is not quoted in errors
// about its syntax, because a password may be in it.
func parseURL(raw string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fail(ErrInvalid, "the URL cannot be parsed; write it as https://host/path")
	}
	switch {
	case u.User != nil:
		return nil, fail(ErrInvalid, "the URL contains user-info; put credentials into a Secret")
	case u.Scheme == "ssh":
		return nil, fail(ErrUnsupported, "ssh is not supported, use https")
	case u.Scheme == "http" && !insecure:
		return nil, fail(ErrInvalid, "plain http is not allowed, use https")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fail(ErrInvalid, "the URL's scheme is not https; other schemes, local paths and remote helpers are refused")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, fail(ErrInvalid, "the URL names no host; write it as https://host/path")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, fail(ErrInvalid, "the URL has a query or a fragment, which a repository's URL must not have")
	case strings.ContainsAny(raw, " \t\r\n\\\"'`$;&|<>(){}[]^") && !strings.HasPrefix(u.Host, "["):
		return nil, fail(ErrInvalid, "the URL has quotes, spaces or other characters that must be percent-encoded")
	}
	// git takes a URL with a slash at its end for the same one.
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// cleanURL is a URL as a mirror of it would be called, without user-info; "" where
// there can be none.
func cleanURL(raw string) string {
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

// shown is a URL fit for messages and status, even when it was refused.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return "(unusable URL)"
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shorten(clean.String())
}

// what names the thing that is fetched.
func (r Remote) what() string {
	switch {
	case r.Revision != "":
		return "revision " + printable(shorten(r.Revision))
	case r.Commit != "":
		return "commit " + shorten(string(r.Commit))
	case r.Branch != "":
		return "branch " + printable(shorten(r.Branch))
	}
	return "branch main"
}

// id names the mirror: a hash, so that nothing a user or a server writes becomes a file's name.
func (t target) id() string {
	sum := sha256.Sum256([]byte(t.url.String() + "\x00" + t.Key))
	return hex.EncodeToString(sum[:mirrorIDBytes])
}

const mirrorIDBytes = 16

func isMirrorID(name string) bool {
	id, err := hex.DecodeString(name)
	return err == nil && len(id) == mirrorIDBytes
}

// revision is how Flux writes a commit on this reference.
func (t target) revision(head plumbing.Hash) string {
	return revision(t.Branch, head)
}

// revision writes a commit as RFC-0005 does; the branch is "" for a commit alone.
func revision(branch string, head plumbing.Hash) string {
	if branch == "" {
		return "sha1:" + head.String()
	}
	return branch + "@sha1:" + head.String()
}

// validRef is the rule of git check-ref-format for a full name.
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c == 0x7f || strings.IndexByte("~^:?*[\\", c) >= 0 {
			return false
		}
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
