package lint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Bases finds what overlays start from beside the files that are checked: in the folder
// of the overlay, its history, and among the built-in profiles.
type Bases struct {
	// Builtin are the built-in profiles; nil has none.
	Builtin *source.Embedded

	folders map[string]*folder
}

// folder is one folder with overlays.
type folder struct {
	index profile.Indexer
	snap  *source.Snapshot
}

func (b *Bases) folder(ctx context.Context, file string) (*folder, error) {
	dir, err := filepath.Abs(filepath.Dir(filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	if f := b.folders[dir]; f != nil {
		return f, nil
	}
	snap, err := source.Directory{Root: "/", Path: dir}.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the bases of overlays: %w", err)
	}
	f := &folder{index: profile.Indexer{Builtin: b.Builtin}, snap: snap}
	if b.folders == nil {
		b.folders = map[string]*folder{}
	}
	b.folders[dir] = f
	return f, nil
}

// assemble resolves the overlays of files, and says of each whose base has moved what it
// would come to.
func (l *Linter) assemble(ctx context.Context, files []profile.Contents) ([]profile.Document, []Finding, error) {
	bases := l.Bases
	if bases == nil {
		bases = &Bases{}
	}
	elsewhere := func(ctx context.Context, o profile.Overlay) (profile.Document, error) {
		f, err := bases.folder(ctx, o.Path)
		if err != nil {
			return profile.Document{}, err
		}
		return f.index.Base(ctx, f.snap, o.Spec.From)
	}
	docs, wrong, err := profile.Assemble(ctx, files, elsewhere)
	if err != nil {
		return nil, nil, err
	}
	var findings []Finding
	for _, p := range wrong {
		f := decodeFinding(p)
		f.Rule = RuleOverlay
		findings = append(findings, f)
	}
	for _, in := range files {
		for _, o := range in.Overlays {
			f, err := bases.folder(ctx, o.Path)
			if err != nil {
				return nil, nil, err
			}
			m, ok, err := f.index.MovedOf(ctx, f.snap, o)
			var missing *profile.MissingBaseError
			if errors.As(err, &missing) || err == nil && !ok {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			findings = append(findings, Finding{
				Rule: RuleBaseMoved, Severity: SeverityNote, Path: o.Path, Line: m.Line, Profile: o.Name, Version: o.Spec.Version, Field: "spec.from.version", Message: m.Message(),
			})
		}
	}
	return docs, findings, nil
}

// placed puts findings where a reader can go. What is wrong with a base that is in no file
// here, but in the history or built in, is told at the overlay's spec.from, and only if it
// is an error: what else is to be said of such a base is no matter of the overlay.
func placed(findings []Finding, docs []profile.Document) []Finding {
	byName := map[string]profile.Document{}
	for _, d := range docs {
		byName[d.Name+" "+d.Spec.Version] = d
	}
	var out []Finding
	for _, f := range findings {
		d, ok := byName[f.Profile+" "+f.Version]
		if ok && f.Path != d.Path && outside.MatchString(f.Path) {
			if f.Severity != SeverityError {
				continue
			}
			f.Message += fmt.Sprintf(" (in the base, %s:%d)", f.Path, f.Line)
			f.Path, f.Line, f.Column = d.Path, d.Line("spec.from"), 0
		}
		out = append(out, f)
	}
	return out
}

// outside is a file as profile.Document.FileOf names one that is not in the tree.
var outside = regexp.MustCompile(`^(builtin|[0-9a-f]{12}):`)

// withoutBases leaves out what is said of an overlay for a text that its base has, where
// the same is said of the base.
func withoutBases(findings []Finding, docs []profile.Document) []Finding {
	type what struct {
		rule, path, message string
		line                int
	}
	own := map[what]bool{}
	home := map[string]string{}
	for _, d := range docs {
		home[d.Name+" "+d.Spec.Version] = path.Clean(d.Path)
	}
	at := func(f Finding) what { return what{f.Rule, f.Path, f.Message, f.Line} }
	isOwn := func(f Finding) bool { h, ok := home[f.Profile+" "+f.Version]; return !ok || h == path.Clean(f.Path) }
	for _, f := range findings {
		if isOwn(f) {
			own[at(f)] = true
		}
	}
	var out []Finding
	for _, f := range findings {
		if isOwn(f) || !own[at(f)] {
			out = append(out, f)
		}
	}
	return out
}
