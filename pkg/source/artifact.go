package source

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/artifact"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
)

// Artifacts downloads the archives that Flux's source-controller serves, and verifies their
// digests. Its fields are set once, before the first Read.
type Artifacts struct {
	// Dir is the folder in which an archive is stored while it is read, as a file without
	// a name; "" is the system's folder for temporary files.
	Dir string
	// Hosts are the only servers to download from: as host, which allows the default port
	// of the URL's scheme, or as host:port. Without this limit, a user who can write the
	// status of a Flux object could make the controller send requests to any host in the
	// cluster.
	Hosts []string
	// AllowedCIDRs are addresses to connect to even if they are loopback, link-local or
	// otherwise rejected.
	AllowedCIDRs []netip.Prefix

	limits  artifact.Limits // zero means the defaults
	limiter memoryLimiter   // limits concurrent downloads
}

// Artifact is an archive that the status of a Flux object names, and the folder to read in
// it.
type Artifact struct {
	// URL, Digest and Revision are from the status.
	URL, Digest, Revision string
	// Commit is the commit that the archive was made from, if its metadata names one; ""
	// means Revision.
	Commit string
	// Repository is the address that Flux fetched from.
	Repository string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore has patterns in gitignore syntax, relative to Path. They apply after those of
	// every IgnoreFile.
	Ignore string
}

// Read downloads an archive, checks its digest, and only then reads it. Only the archive
// itself is written to disk. The snapshot has no history. Its Head is the artifact's commit
// or, without one, its revision, which is longer than a commit id. Errors are of the kinds
// ErrUnreachable, ErrNotFound, ErrInvalid and ErrUnsupported, or from the context or this
// machine's disk.
func (a *Artifacts) Read(ctx context.Context, from Artifact) (*Snapshot, error) {
	snapshot, err := a.read(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("reading the artifact %s of %s: %w", fault.EscapeUnprintable(fault.Shorten(from.Revision)), CleanAddress(from.Repository), err)
	}
	return snapshot, nil
}

func (a *Artifacts) read(ctx context.Context, from Artifact) (*Snapshot, error) {
	parts, err := filter.SplitPath(from.Path)
	if err != nil {
		return nil, err
	}
	// An artifact that was not made from Git has no commit.
	from.Commit = cmp.Or(from.Commit, from.Revision)
	for _, text := range []string{from.Revision, from.Commit} {
		if text == "" || len(text) > revision.MaxBytes || !utf8.ValidString(text) || strings.ContainsFunc(text, isUnprintable) {
			return nil, fault.New(fault.ErrInvalid, "its revision is empty, too long or not printable")
		}
	}
	done, err := a.limiter.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	server := artifact.Server{Dir: a.Dir, Hosts: a.Hosts, AllowedCIDRs: a.AllowedCIDRs, Limits: a.limits}
	if server.Limits == (artifact.Limits{}) {
		server.Limits = artifact.DefaultLimits()
	}
	s := &Snapshot{Revision: from.Revision, Repository: CleanAddress(from.Repository), Head: Commit(from.Commit)}
	s.Files, s.Rejected, err = server.Read(ctx, from.URL, from.Digest, filter.Scope{Parts: parts, Ignore: from.Ignore})
	return s, err
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

// CleanAddress removes user-info, query and fragment from an address that Flux fetches from.
func CleanAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return fault.EscapeUnprintable(fault.Shorten(raw[strings.LastIndexByte(raw, '@')+1:]))
	}
	u.User = nil
	u.RawQuery = ""
	u.Fragment = ""
	return u.String()
}
