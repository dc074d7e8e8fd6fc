package verify

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Fetcher fetches a snapshot of a remote repository. *source.Mirrors implements it.
type Fetcher interface {
	Fetch(ctx context.Context, r source.Remote) (*source.Snapshot, error)
}

// Repository is a repository to read: Local if its Dir is set, otherwise Remote. The profile's
// ProfileSource provides missing values: the followed revision, and the folder of the
// profiles.
type Repository struct {
	Remote source.Remote
	Local  source.Repository
}

// repository is an open repository.
type repository struct {
	location Repository
	git      Fetcher
	indexer  *catalog.Indexer
	fromFlag bool
}

// readRevision reads a revision; "" is the followed one.
func (r *repository) readRevision(ctx context.Context, revision string) (*source.Snapshot, error) {
	if local := r.location.Local; local.Dir != "" {
		local.Revision = cmp.Or(revision, local.Revision)
		return local.Read(ctx)
	}
	remote := r.location.Remote
	if revision != "" {
		remote.Branch = ""
		remote.Tag = ""
		remote.SemVer = ""
		remote.Name = ""
		remote.Commit = ""
		remote.Revision = revision
	}
	return r.git.Fetch(ctx, remote)
}

// withFolder returns the same repository with another folder of profiles; nil if the folder is the
// same.
func (r *repository) withFolder(folder string) *repository {
	if folder == "." {
		folder = ""
	}
	out := *r
	// An indexer caches the profiles of one folder.
	out.indexer = &catalog.Indexer{Check: r.indexer.Check, Builtin: r.indexer.Builtin}
	at, ignore := &out.location.Remote.Path, &out.location.Remote.Ignore
	if out.location.Local.Dir != "" {
		at, ignore = &out.location.Local.Path, &out.location.Local.Ignore
	}
	if *at == folder {
		return nil
	}
	*at, *ignore = folder, ""
	return &out
}

// exists reports whether the repository exists, even if the followed revision does not.
func (r *repository) exists(ctx context.Context) bool {
	_, err := r.readRevision(ctx, "HEAD")
	return err == nil
}

// followedRevision describes the revision that readRevision reads without an argument.
func (r *repository) followedRevision() string {
	if r.location.Local.Dir != "" {
		return cmp.Or(r.location.Local.Revision, "HEAD")
	}
	m := r.location.Remote
	if m.SemVer != "" {
		return "tags " + m.SemVer
	}
	return cmp.Or(m.Revision, m.Branch, m.Tag, m.Name, string(m.Commit), "main")
}

// findRepository returns the repository from which the records of a target claim that its profile came.
// If there is nothing to compare with, why gives the reason.
func (v *Verifier) findRepository(ctx context.Context, s *target, what api.ProvenanceConfiguration) (r *repository, why string) {
	switch _, invalid := source.ParseCommit(what.Commit); {
	case what.Repository == "" && v.Repository == nil:
		return nil, "a user created the profile: no repository to compare it with"
	case strings.Contains(what.Version, "-dirty."):
		return nil, "the profile was edited in a directory and never committed"
	case what.Commit == "":
		return nil, "the profile came from a directory without commits"
	case invalid != nil && v.Repository == nil:
		return nil, fmt.Sprintf("the profile comes from Flux or Argo CD, whose revision %s has no history: name the Git repository with --repo", redact.PrintableLine(what.Commit))
	}
	r = &repository{git: v.Git, indexer: &catalog.Indexer{Check: v.Check, Builtin: v.Builtin}, fromFlag: v.Repository != nil}
	if v.Repository != nil {
		r.location = completeRepository(*v.Repository, s.from, what)
		return r, ""
	}
	r.location, why = v.recordedRepository(ctx, s.from, what)
	return r, why
}

// recordedRepository returns the repository that the record names. The credentials of the
// ProfileSource are used only for its own URL.
func (v *Verifier) recordedRepository(ctx context.Context, ps *api.ProfileSource, what api.ProvenanceConfiguration) (p Repository, why string) {
	if ps != nil && ps.Spec.Git != nil && ps.Status.Repository == what.Repository {
		remote, err := (&fetcher.Fetcher{Live: v.Management}).NewRemote(ctx, ps)
		if err != nil {
			return Repository{}, fmt.Sprintf("the credentials of ProfileSource %s cannot be read (%s): name the repository, or a clone of it, with --repo", key(ps), redact.PrintableLine(err.Error()))
		}
		return Repository{Remote: remote}, ""
	}
	if v.FollowedOnly {
		return Repository{}, fmt.Sprintf("no ProfileSource follows the repository %s now: run osm-gitops verify, which reads it nevertheless", redact.PrintableLine(what.Repository))
	}
	if path.IsAbs(what.Repository) {
		return Repository{}, fmt.Sprintf("the repository is the folder %s on the controller's machine: name it, or a clone of it, with --repo", redact.PrintableLine(what.Repository))
	}
	if ps != nil && ps.Status.Repository != what.Repository {
		ps = nil // it follows another repository now
	}
	return completeRepository(Repository{Remote: source.Remote{URL: what.Repository}}, ps, what), ""
}

// completeRepository sets missing values: the reference and the folder of the ProfileSource;
// without one HEAD, and the folder of the profile's file.
func completeRepository(p Repository, ps *api.ProfileSource, what api.ProvenanceConfiguration) Repository {
	folder := path.Dir(what.Path)
	revision := "HEAD"
	ignore := ""
	if folder == "." {
		folder = ""
	}
	if ps != nil {
		folder = ps.Spec.Path
		if ps.Spec.Ignore != nil {
			ignore = *ps.Spec.Ignore
		}
		if ps.Spec.Git != nil {
			revision = revisionOfReference(ps.Spec.Git.Ref)
		}
	}
	if p.Local.Dir != "" {
		p.Local.Revision, p.Local.Path = cmp.Or(p.Local.Revision, revision), cmp.Or(p.Local.Path, folder)
		p.Local.Ignore = cmp.Or(p.Local.Ignore, ignore)
		return p
	}
	p.Remote.Revision, p.Remote.Path = cmp.Or(p.Remote.Revision, revision), cmp.Or(p.Remote.Path, folder)
	p.Remote.Ignore = cmp.Or(p.Remote.Ignore, ignore)
	return p
}

// revisionOfReference converts a reference to a revision. It is HEAD for a range of tags, whose
// highest is unknown here.
func revisionOfReference(ref *api.GitReference) string {
	switch {
	case ref == nil || *ref == (api.GitReference{}):
		return "main"
	case ref.Tag != "":
		return "refs/tags/" + ref.Tag
	case ref.SemVer != "":
		return "HEAD"
	}
	return cmp.Or(ref.Branch, ref.Name, ref.Commit)
}
