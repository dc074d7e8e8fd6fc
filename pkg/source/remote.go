package source

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// Remote is a repository on a server, and what to read in it.
type Remote struct {
	// URL is an https URL without user-info, ssh://user@host/path or user@host:path;
	// http needs Mirrors.AllowInsecure.
	URL string
	// At most one of these is set; without any, the branch main is followed. SemVer is a
	// range, of which the highest tag is used. Name is a full reference such as
	// refs/pull/420/head.
	Branch string
	Tag    string
	SemVer string
	Name   string
	Commit Commit
	// Revision is a branch, a tag, a commit or a revision like HEAD~1, for callers that read
	// a repository once. It excludes all of the fields above.
	Revision string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore has patterns in gitignore syntax, relative to Path. They apply after those of
	// every IgnoreFile.
	Ignore string
	// Auth is nil for a public repository.
	Auth Auth
	// Certificate is sent to the repository's own host if it requests one.
	Certificate *Certificate
	// CA has certificates in PEM to trust instead of the system's; nil for the system's.
	CA []byte
	// Proxy is nil for none. Proxies of the environment are not used.
	Proxy *Proxy
	// Key separates tenants: remotes share a mirror only if URL and Key are equal. It
	// consists of everything that decides who has read access: namespace, credentials, CA
	// and proxy, as names and digests. It is hashed and never shown.
	Key string
	// MaxAge allows use of cached references that another fetch of the mirror requested at
	// most so long ago, so that 100 sources of one repository cause one request. Missing
	// objects are fetched in any case. 0 uses no references requested before the call.
	MaxAge time.Duration
	// MaxFailureAge is the same for cached errors of a server that could not be reached or
	// did not send the same commit, within a timeout that was not shorter.
	MaxFailureAge time.Duration
	// LastFetched is the time of the last references that the caller got. References and errors
	// up to then are not used, at any age, so that each call returns newer ones. Zero
	// means none.
	LastFetched time.Time
	// Retention is how long the mirror is stored for the next fetch of any remote that shares it.
	// 0 uses the time of Sweep.
	Retention time.Duration
	// Timeout bounds each phase: dial, proxy, TLS or handshake, token, refs, pack. 0 is
	// one minute.
	Timeout time.Duration
}

// target is a valid Remote.
type target struct {
	Remote
	location.Location
	parts []string        // of the path
	want  revision.Wanted // the selected commit
	began time.Time       // when Fetch was called
}

// scope returns the folder to read, with its ignore patterns.
func (t target) scope() filter.Scope { return filter.Scope{Parts: t.parts, Ignore: t.Ignore} }

// validTarget validates a remote before anything is sent, and returns what to fetch.
func (r Remote) validTarget(insecure bool) (target, error) {
	at, err := location.Parse(r.URL, insecure)
	if err != nil {
		return target{}, err
	}
	if err := transport.CheckAuth(at, r.Auth, r.CA, r.Certificate); err != nil {
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

// selector returns the fields that select the commit.
func (r Remote) selector() revision.Selector {
	return revision.Selector{Branch: r.Branch, Tag: r.Tag, SemVer: r.SemVer, Name: r.Name, Commit: r.Commit, Revision: r.Revision}
}

// mirrorID is the name of the mirror: a hash, so that no text of a user or server is used as a file
// name.
func (t target) mirrorID() string {
	sum := sha256.Sum256([]byte(t.Repository + "\x00" + t.Key))
	return hex.EncodeToString(sum[:mirrorIDBytes])
}

const mirrorIDBytes = 16

func isMirrorID(name string) bool {
	id, err := hex.DecodeString(name)
	return err == nil && len(id) == mirrorIDBytes
}

// SplitRevision returns the parts of a Snapshot's Revision: the name of a branch or a tag, a
// full reference, or ""; and the commit. Both are "" if the revision has no commit.
func SplitRevision(text string) (name string, c Commit) { return revision.Split(text) }

// IsSSH reports whether the address of a repository is a URL of ssh, which can be invalid, or
// user@host:path.
func IsSSH(url string) bool { return location.IsSSH(url) }
