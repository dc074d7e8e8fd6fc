package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// fileProfile returns the profile in a file: complete, or the result of an overlay. The
// base of an overlay is searched in the same file, next to it or, with --repo, in the
// repository, then in the history there, and among the built-in profiles.
func (o Origin) fileProfile(ctx context.Context, requested string) (render.Profile, error) {
	docs, err := o.FileProfiles(ctx)
	if err != nil {
		return render.Profile{}, err
	}
	doc, err := selectProfile(docs, o.Profile, requested)
	return profileWithoutCommit(doc), err
}

// FileProfiles returns all profiles in a file.
func (o Origin) FileProfiles(ctx context.Context) ([]profile.Document, error) {
	path := o.Profile
	in, err := Contents(path, o.Stdin)
	if err != nil {
		return nil, err
	}
	if len(in.Overlays) == 0 && o.Repo.Location != "" {
		return nil, NewProfileFileWithRepoError(path)
	}
	if len(in.Overlays) == 0 {
		return in.Profiles, nil
	}
	bases, done, err := o.openBases(ctx, in.Overlays)
	if err != nil {
		return nil, err
	}
	defer done()
	return bases.resolveProfiles(ctx, in)
}

// openBases opens the place that contains the base of an overlay.
func (o Origin) openBases(ctx context.Context, overlays []profile.Overlay) (Bases, func(), error) {
	index := catalog.Indexer{Check: lint.TemplateCheck(o.Engine), Builtin: catalog.Builtin()}
	if o.Repo.Location != "" {
		snap, done, err := o.Repo.Read(ctx)
		return Bases{Index: index, Snapshot: snap}, done, err
	}
	b, err := BasesNextTo(ctx, o.Profile, index, overlays)
	return b, func() {}, err
}

// BasesNextTo reads the folder of a file or, if that lacks the base of an overlay, the
// whole work tree. Standard input has no folder.
func BasesNextTo(ctx context.Context, file string, index catalog.Indexer, overlays []profile.Overlay) (Bases, error) {
	if file == "-" {
		return Bases{Index: index, Snapshot: &source.Snapshot{}}, nil
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return Bases{}, err
	}
	snap, err := Folder(ctx, dir)
	if err != nil {
		return Bases{}, err
	}
	found := Bases{Index: catalog.Indexer{Check: index.Check, Builtin: index.Builtin}, Snapshot: snap}
	top := source.FindWorktree(dir)
	if top == "" {
		found.alone = filepath.Dir(file)
	}
	for _, o := range overlays {
		_, err := found.findInOtherSources(ctx, o)
		var missing *overlay.MissingBaseError
		if top == "" || top == dir || !errors.As(err, &missing) || missing.Rejected != "" {
			continue // any other error is reported when the overlay is resolved
		}
		snap, err := Folder(ctx, top)
		return Bases{Index: index, Snapshot: snap}, err
	}
	return found, nil
}

func Folder(ctx context.Context, dir string) (*source.Snapshot, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return source.Directory{Root: "/", Path: full}.Read(ctx)
}

// Bases is where to search for the bases of overlays.
type Bases struct {
	Index    catalog.Indexer
	Snapshot *source.Snapshot
	// alone is the folder if it is outside a work tree, and "" otherwise.
	alone string
}

// resolveProfiles returns the complete profiles of a file and the results of its overlays.
func (b *Bases) resolveProfiles(ctx context.Context, in profile.Contents) ([]profile.Document, error) {
	docs, wrong, err := overlay.Assemble(ctx, []profile.Contents{in}, b.findInOtherSources)
	if err != nil {
		return nil, err
	}
	return docs, JoinProblems(wrong)
}

// JoinProblems joins all problems into one error; nil for none.
func JoinProblems(problems []*strictyaml.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

func (b *Bases) findInOtherSources(ctx context.Context, o profile.Overlay) (profile.Document, error) {
	base, err := b.Index.Base(ctx, b.Snapshot, o.Spec.From)
	if b.alone != "" {
		err = overlay.WithFolder(err, b.alone)
	}
	return base, err
}

// ResolveBase returns the base of an overlay. Its own file has precedence.
func (b *Bases) ResolveBase(ctx context.Context, in profile.Contents, o profile.Overlay) (profile.Document, error) {
	docs, _, err := overlay.Assemble(ctx, []profile.Contents{in}, b.findInOtherSources)
	if err != nil {
		return profile.Document{}, err
	}
	for _, d := range docs {
		if from := o.Spec.From; !from.Builtin && d.Name == from.Profile && d.Spec.Version == from.Version && (from.Digest == "" || d.Digest == from.Digest) {
			return d, nil
		}
	}
	base, err := b.findInOtherSources(ctx, o)
	if err != nil {
		return base, &strictyaml.Problem{Path: o.Path, Line: o.Line("spec.from"), Field: "spec.from", Err: err}
	}
	return base, nil
}

// Contents reads a file with profiles and overlays.
func Contents(path string, stdin io.Reader) (profile.Contents, error) {
	b, err := File(path, stdin)
	if err != nil {
		return profile.Contents{}, err
	}
	in, err := profile.DecodeFile(path, b)
	if err == nil && len(in.Profiles)+len(in.Overlays) == 0 {
		err = fmt.Errorf("%s: contains no OperatingSystemProfile", path)
		if len(in.Others) > 0 {
			err = fmt.Errorf("%w, but %s", err, in.Others[0].Kind)
		}
	}
	return in, err
}
