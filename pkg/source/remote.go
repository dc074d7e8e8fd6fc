package source

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
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
	transport.Location
	parts []string        // of the path
	want  revision.Wanted // which commit
	began time.Time       // when the fetch was asked for
}

// scope is what of the repository is read.
func (t target) scope() filter.Scope { return filter.Scope{Parts: t.parts, Ignore: t.Ignore} }

// check refuses a remote that is wrong in itself, before anything is sent.
func (r Remote) check(insecure bool) (target, error) {
	at, err := transport.Locate(r.URL, insecure)
	if err != nil {
		return target{}, err
	}
	if err := at.CheckAuth(r.Auth, r.CA, r.Certificate); err != nil {
		return target{}, err
	}
	parts, err := filter.SplitPath(r.Path)
	if err != nil {
		return target{}, err
	}
	want, err := r.selector().Check()
	if err != nil {
		return target{}, err
	}
	if r.Timeout <= 0 {
		r.Timeout = transport.DefaultTimeout
	}
	return target{Remote: r, Location: at, parts: parts, want: want}, nil
}

// selector is what of the remote says which commit is meant.
func (r Remote) selector() revision.Selector {
	return revision.Selector{Branch: r.Branch, Tag: r.Tag, SemVer: r.SemVer, Name: r.Name, Commit: r.Commit, Revision: r.Revision}
}

// id names the mirror: a hash, so that nothing a user or a server writes becomes a file's name.
func (t target) id() string {
	sum := sha256.Sum256([]byte(t.Repository + "\x00" + t.Key))
	return hex.EncodeToString(sum[:mirrorIDBytes])
}

const mirrorIDBytes = 16

func isMirrorID(name string) bool {
	id, err := hex.DecodeString(name)
	return err == nil && len(id) == mirrorIDBytes
}

// SplitRevision takes a Snapshot's Revision apart: the name of a branch or a tag, a
// full reference, or nothing; and the commit, which is "" where there is none.
func SplitRevision(text string) (name string, c Commit) { return revision.Split(text) }
