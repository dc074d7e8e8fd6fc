package clusterfixture

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// Repo is a Git repository in a folder, from which an estate's profiles come.
type Repo struct {
	e *Fixture
	// Dir is its work tree.
	Dir string
}

// NewRepo makes an empty one in a folder, which must exist.
func (e *Fixture) NewRepo(dir string) *Repo {
	e.t.Helper()
	r := &Repo{e: e, Dir: dir}
	r.Git("init", "--quiet", "--initial-branch=main", ".")
	return r
}

// CopyRepo makes one of the files of another, in an empty folder.
func (e *Fixture) CopyRepo(dir string, files fs.FS) *Repo {
	e.t.Helper()
	e.do(os.CopyFS(dir, files))
	return &Repo{e: e, Dir: dir}
}

// Git runs git in the work tree, with times that do not change.
func (r *Repo) Git(args ...string) string {
	r.e.t.Helper()
	now := At(len(r.e.Objects)).Format(time.RFC3339)
	cmd := gittest.Command(r.e.t.Context(), r.Dir, args...)
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_DATE="+now, "GIT_COMMITTER_DATE="+now)
	return gittest.Run(r.e.t, cmd)
}

// Commit writes a profile's file and commits it.
func (r *Repo) Commit(osp *osm.OperatingSystemProfile) string {
	r.e.t.Helper()
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": osm.GroupVersion.String(), "kind": "OperatingSystemProfile",
		"metadata": map[string]any{"name": osp.Labels[api.LabelProfile]}, "spec": osp.Spec,
	})
	r.e.do(err)
	path := filepath.Join(r.Dir, osp.Annotations[api.AnnotationPath])
	r.e.do(os.MkdirAll(filepath.Dir(path), 0o700))
	r.e.do(os.WriteFile(path, text, 0o600))
	r.Git("add", ".")
	r.Git("commit", "--quiet", "--message", fmt.Sprintf("osp-x %s", osp.Spec.Version))
	return r.Git("rev-parse", "HEAD")
}

// Push returns the profile of the estate at an existing commit.
func (r *Repo) Push(n int, line string) *osm.OperatingSystemProfile {
	r.e.t.Helper()
	osp := r.e.Push(n, line)
	id := r.Commit(osp)
	at, err := time.Parse(time.RFC3339, r.Git("show", "--no-patch", "--format=%cI", id))
	r.e.do(err)
	for _, k := range []string{api.AnnotationCommit, api.AnnotationChange, api.AnnotationSelectedBy} {
		osp.Annotations[k] = id
	}
	osp.Annotations[api.AnnotationCommittedAt] = at.UTC().Format(time.RFC3339)
	delete(osp.Annotations, api.AnnotationSignature)
	ps := Get[*api.ProfileSource](r.e, Source)
	ps.Status.Revision, ps.Status.Repository = "main@sha1:"+id, Repository
	ps.Status.Profiles[0].Commit, ps.Status.Profiles[0].SelectedBy = id, id
	return osp
}
