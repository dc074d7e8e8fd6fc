package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

const branchPrefix = "refs/heads/"

// branches says which branches there are, for an error about one that is not.
func branches(refs *packp.AdvRefs) string {
	var names []string
	for name := range refs.References {
		if short, ok := strings.CutPrefix(name, branchPrefix); ok {
			names = append(names, fmt.Sprintf("%q", shorten(short)))
		}
	}
	switch {
	case len(names) == 0:
		return "; it has none at all"
	case len(names) > maxNamedBranches:
		return fmt.Sprintf("; it has %d others", len(names))
	}
	slices.Sort(names)
	return "; it has " + strings.Join(names, ", ")
}

// heads are the heads of all branches, each once, in a fixed order.
func heads(refs *packp.AdvRefs) []plumbing.Hash {
	var ids []plumbing.Hash
	for name, id := range refs.References {
		if strings.HasPrefix(name, branchPrefix) && !id.IsZero() {
			ids = append(ids, id)
		}
	}
	plumbing.HashesSort(ids)
	return slices.Compact(ids)
}

// advertised tells which of some commits the server still names.
func advertised(refs *packp.AdvRefs, ids []plumbing.Hash) []plumbing.Hash {
	var kept []plumbing.Hash
	for _, id := range heads(refs) {
		if slices.Contains(ids, id) {
			kept = append(kept, id)
		}
	}
	return kept
}
