package profile

import (
	"context"
	"errors"
	"fmt"
)

// Elsewhere finds the base of an overlay that is in none of the files at hand, such as
// Indexer.Base for a snapshot. A *MissingBaseError is the overlay's fault, any other ends the search.
type Elsewhere func(ctx context.Context, o Overlay) (Document, error)

// Assemble returns the profiles that files come to, whatever history they have: those in
// full, and what their overlays come to on one another and on bases from elsewhere. It
// is for who looks at files alone, as they lie there; a Catalogue knows their versions.
// Wrong are the problems of overlays, which come to nothing.
func Assemble(ctx context.Context, files []Contents, elsewhere Elsewhere) (docs []Document, wrong []*Problem, err error) {
	a := assembly{elsewhere: elsewhere, docs: map[key]Document{}, overlays: map[key]Overlay{}, open: map[key]bool{}, failed: map[key]bool{}}
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
	elsewhere Elsewhere
	docs      map[key]Document // in full, and resolved
	overlays  map[key]Overlay
	open      map[key]bool // being resolved
	failed    map[key]bool
	wrong     []*Problem
}

func (a *assembly) say(o Overlay, err error) {
	a.failed[o.key()] = true
	a.wrong = append(a.wrong, &Problem{Path: o.Path, Line: o.Line("spec.from"), Field: "spec.from", Err: err})
}

// resolve resolves an overlay that lies on depth-1 others.
func (a *assembly) resolve(ctx context.Context, o Overlay, depth int) (Document, bool, error) {
	if d, ok := a.docs[o.key()]; ok && d.Path == o.Path || a.failed[o.key()] {
		return d, ok, nil
	}
	from := key{o.Spec.From.Profile, o.Spec.From.Version}
	if depth > maxOverlays {
		a.say(o, fmt.Errorf("is the %dth overlay on one another; %d are allowed: start from a profile in full", depth, maxOverlays))
		return Document{}, false, nil
	}
	a.open[o.key()] = true
	defer delete(a.open, o.key())
	base, ok := a.docs[from]
	if o.Spec.From.Builtin {
		ok = false
	}
	if lower, is := a.overlays[from]; is && !ok && !o.Spec.From.Builtin {
		if a.open[from] {
			a.say(o, fmt.Errorf("goes round in a circle: %q %s (%s:%d) starts from this overlay: one of them must start from something else", lower.Name, lower.Spec.Version, lower.Path, lower.Line("spec.from")))
			return Document{}, false, nil
		}
		var err error
		if base, ok, err = a.resolve(ctx, lower, depth+1); err != nil {
			return Document{}, false, err
		}
		if !ok {
			if !a.failed[o.key()] {
				a.say(o, &MissingBaseError{Base: o.Spec.From, Refused: lower.Path})
			}
			return Document{}, false, nil
		}
	}
	if !ok || o.Spec.From.Digest != "" && o.Spec.From.Digest != base.Digest {
		var err error
		var missing *MissingBaseError
		switch base, err = a.elsewhere(ctx, o); {
		case errors.As(err, &missing):
			a.say(o, err)
			return Document{}, false, nil
		case err != nil:
			return Document{}, false, fmt.Errorf("looking for the base of %s: %w", o.Path, err)
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
