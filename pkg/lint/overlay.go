package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/rebase"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Bases finds the bases of overlays outside the files that are checked: in the folder of
// the overlay, in its history, and among the built-in profiles.
type Bases struct {
	// Builtin are the built-in profiles; nil has none.
	Builtin *source.Embedded

	folders map[string]*folder
}

// folder is one folder with overlays.
type folder struct {
	index catalog.Indexer
	snap  *source.Snapshot
	// names has the paths of the snapshot's files as findings name them.
	names map[string]string
	// name is that of the folder, and alone says that it is in no work tree.
	name  string
	alone bool
}

// readFolderOfFile reads the folder that an overlay's file was read with.
func (b *Bases) readFolderOfFile(ctx context.Context, f File) (*folder, error) {
	name := cmp.Or(f.Folder, path.Dir(f.Path))
	full, err := filepath.Abs(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if known := b.folders[full]; known != nil {
		return known, nil
	}
	dir := source.Directory{Root: "/", Path: full}
	snap, err := dir.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the bases of overlays: %w", err)
	}
	below, _, err := dir.ReadFiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the bases of overlays: %w", err)
	}
	read := &folder{index: catalog.Indexer{Builtin: b.Builtin}, snap: snap, names: displayPaths(name, snap.Files, below), name: name, alone: source.FindWorktree(full) == ""}
	if b.folders == nil {
		b.folders = map[string]*folder{}
	}
	b.folders[full] = read
	return read, nil
}

// displayPaths maps the paths of a folder's files in a snapshot, which begin at the top of the
// repository, to paths below the folder as the user named it.
func displayPaths(folder string, snapshot, below []source.File) map[string]string {
	names := map[string]string{}
	if len(snapshot) == 0 || len(below) == 0 || !strings.HasSuffix(snapshot[0].Path, below[0].Path) {
		return names
	}
	top := strings.TrimSuffix(snapshot[0].Path, below[0].Path)
	for _, f := range snapshot {
		names[f.Path] = path.Join(folder, strings.TrimPrefix(f.Path, top))
	}
	return names
}

// overlays resolves the overlays of files.
type overlays struct {
	bases *Bases
	files map[string]File // by path
}

func (l *Linter) newOverlays(files []File) overlays {
	o := overlays{bases: l.Bases, files: map[string]File{}}
	if o.bases == nil {
		o.bases = &Bases{}
	}
	for _, f := range files {
		o.files[f.Path] = f
	}
	return o
}

// resolveOverlays resolves the overlays. For an overlay whose base has a newer version, it reports
// the effect of that version.
func (o overlays) resolveOverlays(ctx context.Context, contents []profile.Contents) ([]profile.Document, []Finding, error) {
	resolveBase := func(ctx context.Context, ov profile.Overlay) (profile.Document, error) {
		f, err := o.baseFolder(ctx, ov)
		if err != nil {
			return profile.Document{}, err
		}
		doc, err := f.index.Base(ctx, f.snap, ov.Spec.From)
		if f.alone {
			err = overlay.WithFolder(err, f.name)
		}
		return doc, err
	}
	docs, wrong, err := overlay.Assemble(ctx, contents, resolveBase)
	if err != nil {
		return nil, nil, err
	}
	var findings []Finding
	for _, p := range wrong {
		f := findingFromProblem(p)
		f.Rule = RuleOverlay
		findings = append(findings, f)
	}
	for _, in := range contents {
		for _, ov := range in.Overlays {
			f, err := o.newerBaseFindings(ctx, ov)
			if err != nil {
				return nil, nil, err
			}
			findings = append(findings, f...)
		}
	}
	return docs, findings, nil
}

// baseFolder returns the folder with the base of an overlay: the folder that its file was read with
// or, if the base is not there, the whole work tree.
func (o overlays) baseFolder(ctx context.Context, ov profile.Overlay) (*folder, error) {
	file := o.files[ov.Path]
	f, err := o.bases.readFolderOfFile(ctx, file)
	if err != nil {
		return nil, err
	}
	_, err = f.index.Base(ctx, f.snap, ov.Spec.From)
	var missing *overlay.MissingBaseError
	if !errors.As(err, &missing) || missing.Rejected != "" {
		return f, nil // other errors are reported when the overlay is resolved
	}
	name := cmp.Or(file.Folder, path.Dir(file.Path))
	full, err := filepath.Abs(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	up, err := filepath.Rel(full, source.FindWorktree(full))
	if err != nil || up == "." {
		return f, nil //nolint:nilerr // in no work tree, or that is all of it
	}
	file.Folder = path.Join(name, filepath.ToSlash(up))
	o.files[ov.Path] = file
	return o.bases.readFolderOfFile(ctx, file)
}

// newerBaseFindings reports the effect of a newer version of an overlay's base.
func (o overlays) newerBaseFindings(ctx context.Context, ov profile.Overlay) ([]Finding, error) {
	f, err := o.baseFolder(ctx, ov)
	if err != nil {
		return nil, err
	}
	m, ok, err := rebase.CheckOutdated(ctx, &f.index, f.snap, ov)
	var problem *strictyaml.Problem
	var missing *overlay.MissingBaseError
	if errors.As(err, &missing) || errors.As(err, &problem) || err == nil && !ok {
		return nil, nil // its errors are already reported
	}
	if err != nil {
		return nil, err
	}
	return []Finding{{
		Rule: RuleBaseMoved, Severity: SeverityNote, Path: ov.Path, Line: m.Line, Profile: ov.Name, Version: ov.Spec.Version,
		Field: "spec.from.version", Message: m.Message(),
	}}, nil
}

// displayPath returns the path of a file with a text of a profile in the form that findings have.
func (o overlays) displayPath(doc profile.Document, file string) string {
	if _, linted := o.files[file]; linted {
		return file
	}
	f := o.files[doc.Path]
	full, err := filepath.Abs(filepath.FromSlash(cmp.Or(f.Folder, path.Dir(f.Path))))
	if err != nil || o.bases.folders[full] == nil {
		return file
	}
	return cmp.Or(o.bases.folders[full].names[file], file)
}

// possibleFindingFiles returns the files that the profiles of each file can have findings in: the file itself,
// and those with the bases of its overlays.
func (o overlays) possibleFindingFiles(docs []profile.Document) map[string][]string {
	out := map[string][]string{}
	for _, d := range docs {
		out[d.Path] = append(out[d.Path], d.Path)
		for _, file := range d.Files() {
			out[d.Path] = append(out[d.Path], o.displayPath(d, file))
		}
	}
	return out
}

// relocateOrDropFindings moves findings to a position in the checked files. An error in a base that is in the
// history or built in is reported at the overlay's spec.from. Other findings about such a
// base are dropped: the author of the overlay cannot fix them there.
func (o overlays) relocateOrDropFindings(findings []Finding, docs []profile.Document) []Finding {
	byName := map[string]profile.Document{}
	for _, d := range docs {
		byName[d.Name+" "+d.Spec.Version] = d
	}
	var out []Finding
	for _, f := range findings {
		d, ok := byName[f.Profile+" "+f.Version]
		switch {
		case !ok || f.Path == d.Path:
		case !outside.MatchString(f.Path):
			f.Path = o.displayPath(d, f.Path)
		default:
			if f.Severity != SeverityError {
				continue
			}
			f.Message += fmt.Sprintf(" (in the base, %s:%d)", f.Path, f.Line)
			f.Path = d.Path
			f.Line = d.Line("spec.from")
			f.Column = 0
		}
		out = append(out, f)
	}
	return out
}

// outside is a file as profile.Document.FileOf names one that is not in the tree.
var outside = regexp.MustCompile(`^(builtin|[0-9a-f]{12}):`)

// dropBaseFindings drops findings of overlays about text of a base that has the same finding.
func dropBaseFindings(findings []Finding, docs []profile.Document) []Finding {
	type what struct {
		rule, path, message string
		line                int
	}
	foundInBase := map[what]bool{}
	home := map[string]string{}
	for _, d := range docs {
		home[d.Name+" "+d.Spec.Version] = path.Clean(d.Path)
	}
	at := func(f Finding) what { return what{f.Rule, f.Path, f.Message, f.Line} }
	isInProfileFile := func(f Finding) bool { h, ok := home[f.Profile+" "+f.Version]; return !ok || h == path.Clean(f.Path) }
	for _, f := range findings {
		if isInProfileFile(f) {
			foundInBase[at(f)] = true
		}
	}
	var out []Finding
	for _, f := range findings {
		if isInProfileFile(f) || !foundInBase[at(f)] {
			out = append(out, f)
		}
	}
	return out
}
