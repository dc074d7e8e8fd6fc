package overlay

import (
	"errors"
	"fmt"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// MaxChain is the maximum length of a chain of overlays. Chains of more than two or
// three are hard to follow.
const MaxChain = 8

// MissingBaseError reports that the base of an overlay was not found: neither in the
// source nor among the built-in profiles of this program (another release can have it).
// It also reports a base whose content differs from the named digest, or that must not be
// used.
type MissingBaseError struct {
	// Base is the requested base.
	Base api.ProfileOverlayBase
	// Available are the existing versions of that profile, highest first.
	Available []string
	// Rejected is the rejected file that has it, "" if there is none.
	Rejected string
	// Folder is the only folder that was searched, if it is not in a Git work tree; else
	// "".
	Folder string
	// Instead says what was found and why it is not used, "" if nothing was found.
	Instead string
}

// WithFolder adds the folder that was searched to a MissingBaseError, and returns other errors unchanged.
func WithFolder(err error, folder string) error {
	var missing *MissingBaseError
	if !errors.As(err, &missing) {
		return err
	}
	out := *missing
	out.Folder = folder
	return &out
}

func (e *MissingBaseError) Error() string {
	what := fmt.Sprintf("there is no profile %q %s", e.Base.Profile, e.Base.Version)
	switch {
	case e.Instead != "":
		return e.Instead
	case e.Rejected != "":
		return fmt.Sprintf("the base, profile %q %s, is rejected: fix %s first", e.Base.Profile, e.Base.Version, e.Rejected)
	case e.Folder != "":
		what += fmt.Sprintf(" in folder %q (not in a Git work tree, so nothing else is searched), nor built in", e.Folder)
		if len(e.Available) > 0 {
			what += fmt.Sprintf("; available: %s: name one of them (osm-gitops rebase-overlay shows what changes), or", strings.Join(e.Available, ", "))
		} else {
			what += ":"
		}
		return what + " name a folder that has both the overlay and its base"
	case e.Base.Builtin && len(e.Available) > 0:
		return fmt.Sprintf("%s built in, which spec.from.builtin requires; available: %s: name one of them (osm-gitops rebase-overlay shows what changes), or add the base to the repository and remove builtin", what, strings.Join(e.Available, ", "))
	case e.Base.Builtin:
		return what + " built in, which spec.from.builtin requires: name a built-in version, or remove builtin"
	case len(e.Available) > 0:
		return fmt.Sprintf("%s, neither in the repository or its history nor built in; available: %s: name one of them (osm-gitops rebase-overlay shows what changes), or add the base to the repository", what, strings.Join(e.Available, ", "))
	}
	return what + ", neither in the repository or its history nor built in, nor any other version of it: name an existing profile"
}
