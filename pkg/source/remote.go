package source

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// Remote is a repository on a server and what to read of it.
type Remote struct {
	// URL is an https URL without user-info, ssh://user@host/path or user@host:path;
	// http needs Mirrors.AllowInsecure.
	URL string
	// Branch to follow, or Tag, or SemVer, a range of which the highest tag counts, or
	// Name, a full reference such as refs/pull/420/head, or Commit to stay at; at most
	// one. None is the branch main.
	Branch string
	Tag    string
	SemVer string
	Name   string
	Commit Commit
	// Revision is a branch, a tag, a commit or something like HEAD~1, for whoever
	// reads a repository once; in place of all of these.
	Revision string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore holds patterns in gitignore's syntax, relative to Path, which come after
	// those of every IgnoreFile.
	Ignore string
	// Auth is nil for a repository that everyone may read.
	Auth Auth
	// Certificate is shown to the repository's own host when it asks for one.
	Certificate *Certificate
	// CA are certificates in PEM to trust instead of the system's; nil for the system's.
	CA []byte
	// Proxy is nil for none. Proxies of the environment are not used.
	Proxy *Proxy
	// Key separates tenants: remotes share a mirror only if URL and Key are equal.
	// It holds whatever decides who may read: namespace, credentials, CA, proxy, as
	// names and digests. It is hashed and never shown.
	Key string
	// MaxAge lets an answer serve that another fetch of the mirror got from the server
	// not longer ago than this: 100 sources of one repository then ask once. It does
	// not bound what is fetched. 0 takes no answer to a question from before the call.
	MaxAge time.Duration
	// MaxFailureAge is the same for a server that could not be reached, or did not give
	// out the same commit, within a timeout that is not shorter.
	MaxFailureAge time.Duration
	// Known is when the answer was given that the caller had last: that one and those
	// before serve it no more, whatever their age, so that whoever looks again sees
	// something new. Zero is none.
	Known time.Time
	// Keep is how long the mirror is kept for the next fetch, of any remote that shares
	// it; 0 leaves that to Sweep.
	Keep time.Duration
	// Timeout bounds each phase: dial, proxy, TLS or handshake, token, refs, pack. 0 is
	// one minute.
	Timeout time.Duration
}

// target is a Remote that has been checked.
type target struct {
	Remote
	location
	parts []string            // of the path
	spec  revisionSpec        // of the revision
	tags  *semver.Constraints // of the range
	began time.Time           // when the fetch was asked for
}

// location is where a repository is: over http and https, or over ssh.
type location struct {
	url        *url.URL    // nil for ssh
	ssh        *sshAddress // nil for others
	repository string      // the same however it was written
}

// scope is what of the repository is read.
func (t target) scope() filter.Scope { return filter.Scope{Parts: t.parts, Ignore: t.Ignore} }

// check refuses a remote that is wrong in itself, before anything is sent.
func (r Remote) check(insecure bool) (target, error) {
	at, err := locate(r.URL, insecure)
	if err != nil {
		return target{}, err
	}
	if err := (target{Remote: r, location: at}).checkAuth(); err != nil {
		return target{}, err
	}
	parts, err := filter.SplitPath(r.Path)
	if err != nil {
		return target{}, err
	}
	if r.Revision != "" {
		return r.checkRevision(at, parts)
	}
	r, tags, err := r.checkReference()
	if err != nil {
		return target{}, err
	}
	if r.Timeout <= 0 {
		r.Timeout = defaultTimeout
	}
	return target{Remote: r, location: at, parts: parts, tags: tags}, nil
}

// checkRevision is check for a remote that is read at a revision.
func (r Remote) checkRevision(at location, parts []string) (target, error) {
	if r.references() > 0 {
		return target{}, fault.New(fault.ErrInvalid, "a revision is given, and a branch, a tag or a commit too; choose one")
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
	return target{Remote: r, location: at, parts: parts, spec: spec}, nil
}

// locate accepts what this package can fetch.
func locate(raw string, insecure bool) (location, error) {
	address, canonical, err := parseSSH(raw)
	if err != nil {
		return location{}, err
	}
	if address != nil {
		return location{ssh: address, repository: canonical}, nil
	}
	u, err := parseURL(raw, insecure)
	if err != nil {
		return location{}, err
	}
	return location{url: u, repository: u.String()}, nil
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

// cleanURL is a URL as a mirror of it would be called, over http without
// user-info; "" where there can be none.
func cleanURL(raw string) string {
	if at, err := locate(raw, true); err == nil && at.ssh != nil {
		return at.repository
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

// shown is a URL fit for messages and status, even when it was refused.
func shown(raw string) string {
	if at, err := locate(raw, true); err == nil && at.ssh != nil {
		return fault.Shorten(at.repository)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return "(unusable URL)"
	}
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return fault.Shorten(clean.String())
}

// what names the thing that is fetched.
func (r Remote) what() string {
	switch {
	case r.Revision != "":
		return "revision " + fault.Printable(fault.Shorten(r.Revision))
	case r.Commit != "":
		return "commit " + fault.Shorten(string(r.Commit))
	case r.Tag != "":
		return "tag " + fault.Printable(fault.Shorten(r.Tag))
	case r.SemVer != "":
		return "tags in range " + fault.Printable(fault.Shorten(r.SemVer))
	case r.Name != "":
		return "reference " + fault.Printable(fault.Shorten(r.Name))
	case r.Branch != "":
		return "branch " + fault.Printable(fault.Shorten(r.Branch))
	}
	return "branch main"
}

// id names the mirror: a hash, so that nothing a user or a server writes becomes a file's name.
func (t target) id() string {
	sum := sha256.Sum256([]byte(t.repository + "\x00" + t.Key))
	return hex.EncodeToString(sum[:mirrorIDBytes])
}

const mirrorIDBytes = 16

func isMirrorID(name string) bool {
	id, err := hex.DecodeString(name)
	return err == nil && len(id) == mirrorIDBytes
}

// revision writes a commit as RFC-0005 does; the name is "" for a commit alone.
func revision(name string, head plumbing.Hash) string {
	if name == "" {
		return "sha1:" + head.String()
	}
	return name + "@sha1:" + head.String()
}

// SplitRevision takes a Snapshot's Revision apart: the name of a branch or a tag, a
// full reference, or nothing; and the commit, which is "" where there is none.
func SplitRevision(revision string) (name string, c Commit) {
	id := revision
	if i := strings.LastIndexByte(revision, '@'); i >= 0 {
		name, id = revision[:i], revision[i+1:]
	}
	id, ok := strings.CutPrefix(id, "sha1:")
	if !ok || !isObjectID(id) {
		return "", ""
	}
	return name, Commit(id)
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
