package revision

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// Prefixes of the full names of references.
const (
	BranchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
	remotePrefix = "refs/remotes/"
)

// ValidName is the rule of git check-ref-format for a full name.
func ValidName(name string) bool {
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

// CheckAdvertised rejects a server with references that Git does not allow.
func CheckAdvertised(refs *packp.AdvRefs) error {
	for name := range refs.References {
		if name != "HEAD" && !ValidName(name) {
			return fault.New(fault.ErrInvalid, "the server has a reference of the name %q, which Git does not allow", fault.Shorten(name))
		}
	}
	return nil
}

// Format writes a commit as RFC-0005 does; the name is "" for a commit alone.
func Format(name string, head plumbing.Hash) string {
	if name == "" {
		return "sha1:" + head.String()
	}
	return name + "@sha1:" + head.String()
}

// Split takes what Format writes apart: the name of a branch or a tag, a
// full reference, or nothing; and the commit, which is "" where there is none.
func Split(revision string) (name string, c history.Commit) {
	id := revision
	if i := strings.LastIndexByte(revision, '@'); i >= 0 {
		name, id = revision[:i], revision[i+1:]
	}
	id, ok := strings.CutPrefix(id, "sha1:")
	if !ok || !objectstore.IsObjectID(id) {
		return "", ""
	}
	return name, history.Commit(id)
}
