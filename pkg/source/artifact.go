package source

import (
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

// Artifacts downloads what Flux's source-controller has fetched: archives on its
// file server, each with a digest. Its fields are set once, before the first Read.
type Artifacts struct {
	// Dir is where an archive lies while it is read, in a file without a name; "" is
	// the system's folder for such files.
	Dir string
	// Hosts may be asked, as host, on the port of the URL's scheme, or as host:port.
	// Whoever may write the status of a Flux object could else make us ask anyone in the
	// cluster.
	Hosts []string
	// AllowedCIDRs are addresses to connect to although they are loopback,
	// link-local or otherwise refused.
	AllowedCIDRs []netip.Prefix

	limits artifact.Limits // zero are the default
	turns  turns           // to download and read
}

// Artifact is one archive, as the status of a Flux object describes it, and what to
// read of it.
type Artifact struct {
	// URL, Digest and Revision are the status's.
	URL, Digest, Revision string
	// Commit is what the archive was made from, where its maker tells; "" is Revision.
	Commit string
	// Repository is the address of what Flux fetched.
	Repository string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore holds patterns in gitignore's syntax, relative to Path, which come after
	// those of every IgnoreFile.
	Ignore string
}

// Read downloads an archive, checks its digest, and only then reads it. Nothing of it
// is written to disk but the archive itself. The snapshot has no history: its Head is
// the artifact's commit or, where nobody tells, its revision, which is longer than a
// commit's id. Errors are of the kinds ErrUnreachable, ErrNotFound, ErrInvalid and
// ErrUnsupported; any other is the context's, or this machine's disk.
func (a *Artifacts) Read(ctx context.Context, from Artifact) (*Snapshot, error) {
	snapshot, err := a.read(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("reading the artifact %s of %s: %w", fault.Printable(fault.Shorten(from.Revision)), CleanAddress(from.Repository), err)
	}
	return snapshot, nil
}

func (a *Artifacts) read(ctx context.Context, from Artifact) (*Snapshot, error) {
	parts, err := filter.SplitPath(from.Path)
	if err != nil {
		return nil, err
	}
	if from.Commit == "" {
		from.Commit = from.Revision
	}
	for _, text := range []string{from.Revision, from.Commit} {
		if text == "" || len(text) > revision.MaxBytes || !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
			return nil, fault.New(fault.ErrInvalid, "its revision is empty, too long or not printable")
		}
	}
	done, err := a.turns.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	server := artifact.Server{Dir: a.Dir, Hosts: a.Hosts, AllowedCIDRs: a.AllowedCIDRs, Limits: a.limits}
	if server.Limits == (artifact.Limits{}) {
		server.Limits = artifact.DefaultLimits()
	}
	s := &Snapshot{Revision: from.Revision, Repository: CleanAddress(from.Repository), Head: Commit(from.Commit)}
	s.Files, s.Refused, err = server.Read(ctx, from.URL, from.Digest, filter.Scope{Parts: parts, Ignore: from.Ignore})
	return s, err
}

func isControl(r rune) bool { return !unicode.IsPrint(r) }

// CleanAddress takes user-info and query off the address of what Flux fetched.
func CleanAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return fault.Printable(fault.Shorten(raw[strings.LastIndexByte(raw, '@')+1:]))
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
