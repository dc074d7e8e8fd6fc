package profile

import (
	"context"
	"errors"
	"fmt"
)

// BaseResolver finds the base of an overlay that is not in the given files, such as
// Indexer.Base for a snapshot. A *MissingBaseError is a problem of the overlay; any other
// error ends the search.
type BaseResolver func(ctx context.Context, o Overlay) (Document, error)

// Assemble returns the profiles of files without regard to history: complete ones, and
// those that overlays produce from one another and from bases elsewhere. Use it to read
// files alone, as they are on disk; a Catalogue knows their versions. wrong has the
// problems of overlays that cannot be resolved.
func Assemble(ctx context.Context, files []Contents, elsewhere BaseResolver) (docs []Document, wrong []*Problem, err error) {
	a := assembly{otherBases: elsewhere, docs: map[key]Document{}, overlays: map[key]Overlay{}, open: map[key]bool{}, failed: map[key]bool{}}
	for _, f := range files {
		for _, d := range f.Profiles {
			a.docs[key{d.Name, d.Spec.Version}] = d
		}
		for _, o := range f.Overlays {
			a.overlays[o.key()] = o
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
	docs       map[key]Document // complete, and resolved
	overlays   map[key]Overlay
	open       map[key]bool // being resolved
	failed     map[key]bool
	wrong      []*Problem
}

func (a *assembly) report(o Overlay, err error) {
	a.failed[o.key()] = true
	a.wrong = append(a.wrong, &Problem{Path: o.Path, Line: o.Line("spec.from"), Field: "spec.from", Err: err})
}

// resolve resolves an overlay that is based on depth-1 others.
func (a *assembly) resolve(ctx context.Context, o Overlay, depth int) (Document, bool, error) {
	// It was resolved already, as the base of another overlay.
	if d, ok := a.docs[o.key()]; ok && d.Path == o.Path || a.failed[o.key()] {
		return d, ok, nil
	}
	from := key{o.Spec.From.Profile, o.Spec.From.Version}
	if depth > maxOverlays {
		a.report(o, fmt.Errorf("is the %dth overlay in a chain of overlays, and %d are allowed: start from a complete profile", depth, maxOverlays))
		return Document{}, false, nil
	}
	// An overlay that is needed while it is being resolved is part of a cycle.
	a.open[o.key()] = true
	defer delete(a.open, o.key())
	base, ok := a.docs[from]
	if o.Spec.From.Builtin {
		ok = false
	}
	if lower, is := a.overlays[from]; is && !ok && !o.Spec.From.Builtin {
		if a.open[from] {
			a.report(o, fmt.Errorf("forms a cycle: %q %s (%s:%d) starts from this overlay: let one of them start from another profile", lower.Name, lower.Spec.Version, lower.Path, lower.Line("spec.from")))
			return Document{}, false, nil
		}
		var err error
		if base, ok, err = a.resolve(ctx, lower, depth+1); err != nil {
			return Document{}, false, err
		}
		if !ok {
			if !a.failed[o.key()] {
				a.report(o, &MissingBaseError{Base: o.Spec.From, Rejected: lower.Path})
			}
			return Document{}, false, nil
		}
	}
	// A base with another digest can be an earlier version, which only the other bases have.
	if !ok || o.Spec.From.Digest != "" && o.Spec.From.Digest != base.Digest {
		var err error
		var missing *MissingBaseError
		switch base, err = a.otherBases(ctx, o); {
		case errors.As(err, &missing):
			a.report(o, err)
			return Document{}, false, nil
		case err != nil:
			return Document{}, false, fmt.Errorf("finding the base of %s: %w", o.Path, err)
		}
	}
	d, err := Resolve(o, base)
	if err != nil {
		a.failed[o.key()] = true
		a.wrong = append(a.wrong, Problems(err)...)
		return Document{}, false, nil
	}
	a.docs[o.key()] = d
	return d, true, nil
}
