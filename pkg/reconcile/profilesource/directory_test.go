package profilesource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// An edit in a directory is applied within seconds, although the interval is weeks long. A
// source that is deleted, suspended or moved leaves no watch behind.
func TestWatchedDirectory(t *testing.T) {
	root := t.TempDir()
	b := newBench(t, root)
	write := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		b.do(os.MkdirAll(filepath.Dir(path), 0o755))
		b.do(os.WriteFile(path+".new", []byte(content), 0o600))
		b.do(os.Rename(path+".new", path))
	}
	watches := b.r.Fetcher.WatchedDirectories
	watching := func(want int) {
		t.Helper()
		testenv.Await(t, 20*time.Second, fmt.Sprintf("there are %d watches", want), func() error {
			if now := watches(); now != want {
				return fmt.Errorf("there are %d", now)
			}
			return nil
		})
	}
	write("team/a.yaml", artifactProfile("osp-a", "v1.0.0", "one"))
	ps := b.source("dir", api.ProfileSourceSpec{Directory: &api.DirectorySource{Path: "team"}})
	b.until("dir", meta.SucceededReason, "1 profile")
	first := b.get("dir").Status.Profiles[0].Version

	begin := time.Now()
	write("team/a.yaml", artifactProfile("osp-a", "v1.0.0", "two"))
	var second string
	testenv.Await(t, 10*time.Second, "an edit is noticed", func() error {
		if second = b.get("dir").Status.Profiles[0].Version; second == first {
			return errors.New("the version is " + first)
		}
		return nil
	})
	t.Logf("an edit was applied after %s", time.Since(begin))
	if !strings.HasPrefix(second, "v1.0.0-dirty.") {
		t.Errorf("the version is %s", second)
	}
	version := b.get("dir").ResourceVersion
	time.Sleep(2 * time.Second) // longer than from an edit to its report, so a write would have come by now
	if again := b.get("dir").ResourceVersion; again != version {
		t.Error("it goes on although nothing changes")
	}

	write("team/new/b.yaml", artifactProfile("osp-b", "v1.0.0", "one"))
	b.until("dir", meta.SucceededReason, "2 profiles")
	write("team/.osmignore", "new/\n")
	b.until("dir", meta.SucceededReason, "1 profile, 1 profile no longer in the source")

	b.change("dir", func(ps *api.ProfileSource) { ps.Spec.Suspend = true })
	watching(0)
	b.change("dir", func(ps *api.ProfileSource) { ps.Spec.Suspend = false; ps.Spec.Directory.Path = "other" })
	b.until("dir", api.ReasonReferenceNotFound, "does not exist")
	watching(1)
	write("other/c.yaml", artifactProfile("osp-c", "v1.0.0", "one")) // a new folder
	b.until("dir", meta.SucceededReason, "1 profile, 2 profiles no longer in the source")
	b.do(b.client.Delete(t.Context(), ps, client.PropagationPolicy("Background")))
	watching(0)
}
