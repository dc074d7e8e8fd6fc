package source

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

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

// checkReferences rejects a server with references that Git does not allow.
func checkReferences(refs *packp.AdvRefs) error {
	for name := range refs.References {
		if name != "HEAD" && !validRef(name) {
			return fault.New(fault.ErrInvalid, "the server has a reference of the name %q, which Git does not allow", fault.Shorten(name))
		}
	}
	return nil
}
