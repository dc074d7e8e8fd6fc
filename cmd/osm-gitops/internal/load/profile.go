package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Origin is the place of a profile for the render command.
type Origin struct {
	Profile           string // a file or folder; with Repo the name of a profile, or the file of an overlay
	OrBuiltin         bool   // Profile is a default and can name a built-in profile
	Repo              RepoFlags
	MachineDeployment string // for messages
	Engine            *render.Engine
	Stdin             io.Reader
	Stderr            io.Writer // for problems other than the requested profile
}

// Read finds the profile for a pool: in a repository, in a folder, in a file, or
// among the built-in ones.
func (o Origin) Read(ctx context.Context, md *cluster.MachineDeployment) (render.Profile, error) {
	requested := md.Annotations[api.AnnotationOSP]
	switch {
	case IsProfileFile(o.Profile) && !IsFolder(o.Profile):
		return o.fileProfile(ctx, requested)
	case o.Repo.Location != "":
		snap, done, err := o.Repo.Read(ctx)
		if err != nil {
			return render.Profile{}, err
		}
		defer done()
		if o.Profile != "" {
			requested = o.Profile
		}
		if len(snap.Line) == 0 && len(snap.Files) > 0 {
			cli.Warn(o.Stderr, fmt.Errorf("%s is a shallow or partial clone: the commit of a profile is given as %s instead of the one that introduced it; fetch the complete history for the output of the controller",
				o.Repo.Location, snap.Head))
		}
		return o.selectVersion(ctx, snap, choice{name: requested, where: o.Repo.DescribeRevision(snap), object: profile.ObjectName})
	case o.Profile == "":
		snap, err := catalog.Builtin().Read(ctx)
		if err != nil {
			return render.Profile{}, err
		}
		return o.selectVersion(ctx, snap, choice{name: requested, where: BuiltinOnly, object: profile.BuiltinObjectName})
	case IsFolder(o.Profile):
		snap, err := Folder(ctx, o.Profile)
		if err != nil {
			return render.Profile{}, err
		}
		c := choice{name: requested, where: o.Profile, object: profile.ObjectName}
		if !o.OrBuiltin {
			return o.selectVersion(ctx, snap, c)
		}
		// As in a cluster, built-in profiles have the lowest precedence.
		builtin, err := catalog.Builtin().Read(ctx)
		if err != nil {
			return render.Profile{}, err
		}
		return o.selectVersionOrBuiltin(ctx, snap, c, builtin)
	}
	return o.fileProfile(ctx, requested)
}

// BuiltinOnly names the built-in profiles as a place, for messages.
const BuiltinOnly = "this program, whose built-in profiles are the default without --profile and --repo"

func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// choice is a profile requested by name.
type choice struct {
	name   string
	where  string // for messages
	object func(name, version, digest string) string
}

// selectVersionOrBuiltin is selectVersion, with the built-in profile if the snapshot has none of
// this name.
func (o Origin) selectVersionOrBuiltin(ctx context.Context, snap *source.Snapshot, c choice, builtin *source.Snapshot) (render.Profile, error) {
	quiet := o
	quiet.Stderr = io.Discard
	b, err := quiet.selectVersion(ctx, builtin, choice{name: c.name, where: BuiltinOnly, object: profile.BuiltinObjectName})
	if err != nil {
		return o.selectVersion(ctx, snap, c) // report the error of the snapshot
	}
	p, err := o.selectVersion(ctx, snap, c)
	if _, ok := errors.AsType[*unknownProfileError](err); ok {
		return b, nil
	}
	return p, err
}

// unknownProfileError says that no profile has the name.
type unknownProfileError struct{ error }

func (e *unknownProfileError) Unwrap() error { return e.error }

// selectVersion selects the current version of a profile in a snapshot, as the controller would.
// Problems in other files are warnings.
func (o Origin) selectVersion(ctx context.Context, snap *source.Snapshot, c choice) (render.Profile, error) {
	if c.name == "" {
		return render.Profile{}, fmt.Errorf("%s: the MachineDeployment names no profile: set its annotation %s", o.MachineDeployment, api.AnnotationOSP)
	}
	ix := catalog.Indexer{Check: lint.TemplateCheck(o.Engine), Builtin: catalog.Builtin()}
	cat, err := ix.Catalog(ctx, snap)
	if err != nil {
		return render.Profile{}, fmt.Errorf("reading %s: %w", c.where, err)
	}
	i := slices.IndexFunc(cat.Current, func(v catalog.Version) bool { return v.Name == c.name })
	var rejected []error
	for _, r := range cat.Rejected {
		if r.Profile == c.name || i >= 0 && r.File() == cat.Current[i].CurrentPath {
			rejected = append(rejected, r)
			continue
		}
		cli.Warn(o.Stderr, r)
	}
	if len(rejected) > 0 {
		return render.Profile{}, errors.Join(rejected...)
	}
	if i < 0 {
		var names []string
		for _, v := range cat.Current {
			names = append(names, v.Name)
		}
		return render.Profile{}, &unknownProfileError{UnknownProfile(c.name, c.where, names)}
	}
	v := cat.Current[i]
	doc, err := ix.Document(ctx, snap, v)
	if err != nil {
		return render.Profile{}, err
	}
	author, err := catalog.ChangeOf(ctx, snap, v)
	if err != nil {
		return render.Profile{}, err
	}
	return render.Profile{
		Spec: doc.Spec, Digest: doc.Digest, Object: c.object(v.Name, v.Version, v.Digest), SelectedBy: string(v.SelectedBy),
		Provenance: render.Provenance{
			Profile: v.Name, Version: v.Version, Commit: string(v.Commit), Change: string(author.Commit),
			Repository: redact.PrintableLine(snap.Repository), Path: redact.PrintableLine(v.Path),
		},
		File: v.CurrentPath, Lines: doc.Line, FileOf: doc.FileOf,
	}, nil
}

// UnknownProfile lists the existing profiles and suggests a similar name.
func UnknownProfile(requested, where string, names []string) error {
	const most = 20 // as many as fit on a line
	hint := phrase.DidYouMean(requested, names)
	err := fmt.Errorf("profile %q not found in %s", requested, where)
	switch {
	case len(names) == 0:
		return fmt.Errorf("%w, which has no profiles", err)
	case len(names) > most:
		names = append(names[:most:most], "...")
	}
	return fmt.Errorf("%w; there are %s%s", err, strings.Join(names, ", "), hint)
}
