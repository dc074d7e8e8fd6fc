package revision

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// Prefixes of the full names of references.
const (
	BranchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
	remotePrefix = "refs/remotes/"
)

// ValidRefName reports whether git check-ref-format accepts the full name of a reference.
func ValidRefName(name string) bool {
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
		if name != "HEAD" && !ValidRefName(name) {
			return fault.New(fault.ErrInvalid, "the server has a reference with the name %q, which Git does not allow", fault.Shorten(name))
		}
	}
	return nil
}

// Format writes a revision in the format of Flux RFC-0005. The name is "" for a commit
// without a reference.
func Format(name string, head plumbing.Hash) string {
	if name == "" {
		return "sha1:" + head.String()
	}
	return name + "@sha1:" + head.String()
}

// Split returns the parts of what Format writes: the name of a branch or a tag, a full
// reference, or ""; and the commit. Both are "" for any other text.
func Split(revision string) (name string, c history.Commit) {
	id := revision
	if i := strings.LastIndexByte(revision, '@'); i >= 0 {
		name, id = revision[:i], revision[i+1:]
	}
	id, ok := strings.CutPrefix(id, "sha1:")
	if !ok || !objectid.IsValid(id) {
		return "", ""
	}
	return name, history.Commit(id)
}
