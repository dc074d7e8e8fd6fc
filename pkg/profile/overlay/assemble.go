package overlay

import (
	"context"
	"errors"
	"fmt"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
)

// BaseResolver finds the base of an overlay that is not in the given files, such as
// Indexer.Base for a snapshot. A *MissingBaseError is a problem of the overlay; any other
// error ends the search.
type BaseResolver func(ctx context.Context, o profile.Overlay) (profile.Document, error)

// Assemble returns the profiles of files without regard to history: complete ones, and
// those that overlays produce from one another and from otherBases. Use it to read
// files alone, as they are on disk; a catalog.Catalog knows their versions. wrong has the
// problems of overlays that cannot be resolved.
func Assemble(ctx context.Context, files []profile.Contents, otherBases BaseResolver) (docs []profile.Document, wrong []*strictyaml.Problem, err error) {
	a := assembly{otherBases: otherBases, docs: map[profile.ID]profile.Document{}, overlays: map[profile.ID]profile.Overlay{}, open: map[profile.ID]bool{}, failed: map[profile.ID]bool{}}
	for _, f := range files {
		for _, d := range f.Profiles {
			a.docs[d.ID()] = d
		}
		for _, o := range f.Overlays {
			a.overlays[o.ID()] = o
		}
	}
	for _, f := range files {
		docs = append(docs, f.Profiles...)
		for _, o := range f.Overlays {
			d, ok, err := a.resolve(ctx, o, 1)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				docs = append(docs, d)
			}
		}
	}
	return docs, a.wrong, nil
}

type assembly struct {
	otherBases BaseResolver
	docs       map[profile.ID]profile.Document // complete, and resolved
	overlays   map[profile.ID]profile.Overlay
	open       map[profile.ID]bool // being resolved
	failed     map[profile.ID]bool
	wrong      []*strictyaml.Problem
}

// recordFailure records that an overlay cannot be resolved.
func (a *assembly) recordFailure(o profile.Overlay, err error) {
	a.failed[o.ID()] = true
	a.wrong = append(a.wrong, &strictyaml.Problem{Path: o.Path, Line: o.Line("spec.from"), Field: "spec.from", Err: err})
}

// resolve resolves an overlay that is based on depth-1 others.
func (a *assembly) resolve(ctx context.Context, o profile.Overlay, depth int) (profile.Document, bool, error) {
	// It was resolved already, as the base of another overlay.
	if d, ok := a.docs[o.ID()]; ok && d.Path == o.Path || a.failed[o.ID()] {
		return d, ok, nil
	}
	from := profile.ID{Name: o.Spec.From.Profile, Version: o.Spec.From.Version}
	if depth > MaxChain {
		a.recordFailure(o, fmt.Errorf("is the %dth overlay in a chain of overlays, and %d are allowed: start from a complete profile", depth, MaxChain))
		return profile.Document{}, false, nil
	}
	// An overlay that is needed while it is being resolved is part of a cycle.
	a.open[o.ID()] = true
	defer delete(a.open, o.ID())
	base, ok := a.docs[from]
	if o.Spec.From.Builtin {
		ok = false
	}
	if lower, is := a.overlays[from]; is && !ok && !o.Spec.From.Builtin {
		if a.open[from] {
			a.recordFailure(o, fmt.Errorf("forms a cycle: %q %s (%s:%d) starts from this overlay: let one of them start from another profile", lower.Name, lower.Spec.Version, lower.Path, lower.Line("spec.from")))
			return profile.Document{}, false, nil
		}
		var err error
		if base, ok, err = a.resolve(ctx, lower, depth+1); err != nil {
			return profile.Document{}, false, err
		}
		if !ok {
			if !a.failed[o.ID()] {
				a.recordFailure(o, &MissingBaseError{Base: o.Spec.From, Rejected: lower.Path})
			}
			return profile.Document{}, false, nil
		}
	}
	// A base with another digest can be an earlier version, which only the other bases have.
	if !ok || o.Spec.From.Digest != "" && o.Spec.From.Digest != base.Digest {
		var err error
		var missing *MissingBaseError
		switch base, err = a.otherBases(ctx, o); {
		case errors.As(err, &missing):
			a.recordFailure(o, err)
			return profile.Document{}, false, nil
		case err != nil:
			return profile.Document{}, false, fmt.Errorf("finding the base of %s: %w", o.Path, err)
		}
	}
	d, err := Apply(o, base)
	if err != nil {
		a.failed[o.ID()] = true
		a.wrong = append(a.wrong, strictyaml.Problems(err)...)
		return profile.Document{}, false, nil
	}
	a.docs[o.ID()] = d
	return d, true, nil
}
