package impact

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/profiles"
)

// waiting is a repository with two versions of a profile, and a pool that has the first one
// until its wave begins. It returns the file with the first version's content in Git.
func waiting(t *testing.T) (s Selection, object string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--initial-branch=main")
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		text := "apiVersion: operatingsystemmanager.k8c.io/v1alpha1\nkind: OperatingSystemProfile\nmetadata: {name: osp-a}\nspec:\n  osName: ubuntu\n  osVersion: \"24.04\"\n  version: " + version + "\n  supportedCloudProviders: [{name: aws}]\n  bootstrapConfig: {}\n  provisioningConfig: {}\n"
		if err := os.WriteFile(filepath.Join(dir, "osp-a.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "--quiet", "--message", version)
	}
	blob := git("rev-parse", "HEAD~1:osp-a.yaml")
	snap, err := source.Repository{Dir: dir}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return Selection{
		Snapshot: snap, Where: "this repository",
		Builtin: &source.Embedded{FS: profiles.FS(), Repository: profiles.Repository, Path: profiles.Path},
		Clusters: PoolSnapshot{
			Namespace: "kube-system", Settings: map[string]Settings{"s": {}}, Sources: []Source{{Name: "osps", Waves: true}}, ComparedSource: "osps",
			Pools: []Pool{{Inputs: render.Pool{Name: "web", Namespace: "shop"}, Annotations: map[string]string{api.AnnotationOSP: "osp-a"}, Settings: "s", Current: &ProfileVersion{"osp-a", "v1.0.0"}}},
		},
	}, filepath.Join(dir, ".git/objects", blob[:2], blob[2:])
}

// A pool that waits for its wave is listed with both versions. If its current one cannot be
// read, that is an error: a bundle without it would lack downloads of its nodes.
func TestWaitingPoolHasBothVersions(t *testing.T) {
	s, object := waiting(t)
	got, _, err := s.SelectVersions(t.Context())
	if err != nil || len(got) != 2 || got[0].Input.Profile.Spec.Version != "v1.1.0" || got[1].Input.Profile.Spec.Version != "v1.0.0" {
		t.Fatalf("got %+v (error %v)", got, err)
	}
	s.Check = func(d profile.Document) error {
		if d.Spec.Version == "v1.1.0" {
			return os.Remove(object)
		}
		return nil
	}
	if got, _, err := s.SelectVersions(t.Context()); err == nil || len(got) > 0 {
		t.Errorf("without the content of v1.0.0: got %d inputs (error %v)", len(got), err)
	}
}
