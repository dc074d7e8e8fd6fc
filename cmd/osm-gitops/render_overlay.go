package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// fileProfile is the profile in a file: in full, or what an overlay in it comes to. The
// base of an overlay is looked for in the same file, beside it or, with --repo, in the
// repository, in the history there, and among the built-in profiles.
func (o origin) fileProfile(ctx context.Context, asked string) (render.Profile, error) {
	docs, err := o.fileProfiles(ctx)
	if err != nil {
		return render.Profile{}, err
	}
	doc, err := choose(docs, o.flags.profile, asked)
	return profileOf(doc), err
}

// fileProfiles are all profiles in a file.
func (o origin) fileProfiles(ctx context.Context) ([]profile.Document, error) {
	path := o.flags.profile
	in, err := readContents(path, o.stdin)
	if err != nil {
		return nil, err
	}
	if len(in.Overlays) == 0 && o.flags.repo.location != "" {
		return nil, notInRepository(path)
	}
	if len(in.Overlays) == 0 {
		return in.Profiles, nil
	}
	bases, done, err := o.bases(ctx, in.Overlays)
	if err != nil {
		return nil, err
	}
	defer done()
	return bases.profiles(ctx, in)
}

// bases opens the place in which the base of an overlay is.
func (o origin) bases(ctx context.Context, overlays []profile.Overlay) (bases, func(), error) {
	index := profile.Indexer{Check: lint.TemplateCheck(o.engine), Builtin: profile.Builtin()}
	if o.flags.repo.location != "" {
		snap, done, err := o.flags.repo.read(ctx)
		return bases{index: index, snap: snap}, done, err
	}
	b, err := besides(ctx, o.flags.profile, index, overlays)
	return b, func() {}, err
}

// besides reads the folder of a file or, where that lacks the base of an overlay, the
// whole work tree that it is in. Beside standard input there is nothing.
func besides(ctx context.Context, file string, index profile.Indexer, overlays []profile.Overlay) (bases, error) {
	if file == "-" {
		return bases{index: index, snap: &source.Snapshot{}}, nil
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return bases{}, err
	}
	snap, err := readFolder(ctx, dir)
	if err != nil {
		return bases{}, err
	}
	found := bases{index: profile.Indexer{Check: index.Check, Builtin: index.Builtin}, snap: snap}
	top := source.TopOf(dir)
	if top == "" {
		found.alone = filepath.Dir(file)
	}
	for _, o := range overlays {
		_, err := found.elsewhere(ctx, o)
		var missing *profile.MissingBaseError
		if top == "" || top == dir || !errors.As(err, &missing) || missing.Refused != "" {
			continue // any other error is told when the overlay is resolved
		}
		snap, err := readFolder(ctx, top)
		return bases{index: index, snap: snap}, err
	}
	return found, nil
}

func readFolder(ctx context.Context, dir string) (*source.Snapshot, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return source.Directory{Root: "/", Path: full}.Read(ctx)
}

// bases is where the bases of overlays are.
type bases struct {
	index profile.Indexer
	snap  *source.Snapshot
	// alone is the folder where it is in no work tree, else "".
	alone string
}

// profiles are those in full in a file, and what its overlays come to.
func (b *bases) profiles(ctx context.Context, in profile.Contents) ([]profile.Document, error) {
	docs, wrong, err := profile.Assemble(ctx, []profile.Contents{in}, b.elsewhere)
	if err != nil {
		return nil, err
	}
	return docs, allOf(wrong)
}

// allOf is an error of all problems, nil of none.
func allOf(problems []*profile.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (b *bases) elsewhere(ctx context.Context, o profile.Overlay) (profile.Document, error) {
	base, err := b.index.Base(ctx, b.snap, o.Spec.From)
	if b.alone != "" {
		err = profile.WithFolder(err, b.alone)
	}
	return base, err
}

// base is the base of an overlay: in its own file before anywhere else.
func (b *bases) base(ctx context.Context, in profile.Contents, o profile.Overlay) (profile.Document, error) {
	docs, _, err := profile.Assemble(ctx, []profile.Contents{in}, b.elsewhere)
	if err != nil {
		return profile.Document{}, err
	}
	for _, d := range docs {
		if from := o.Spec.From; !from.Builtin && d.Name == from.Profile && d.Spec.Version == from.Version && (from.Digest == "" || d.Digest == from.Digest) {
			return d, nil
		}
	}
	base, err := b.elsewhere(ctx, o)
	if err != nil {
		return base, &profile.Problem{Path: o.Path, Line: o.Line("spec.from"), Field: "spec.from", Err: err}
	}
	return base, nil
}

// readContents reads a file with profiles and overlays.
func readContents(path string, stdin io.Reader) (profile.Contents, error) {
	b, err := readInput(path, stdin)
	if err != nil {
		return profile.Contents{}, err
	}
	in, err := profile.DecodeFile(path, b)
	if err == nil && len(in.Profiles)+len(in.Overlays) == 0 {
		err = fmt.Errorf("%s: holds no OperatingSystemProfile", path)
		if len(in.Others) > 0 {
			err = fmt.Errorf("%w, and is %s", err, in.Others[0].Kind)
		}
	}
	return in, err
}
