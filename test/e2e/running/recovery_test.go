package running

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A repository that moves to another host changes nothing for pools, and what is pushed
// there reaches them. One that is lost is in the controller's mirror, whole.
func TestRepositoryMoved(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Begin(first)
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.0.0")
	s.Eventually("its documents", func() error { return s.Applied("pool-a") })
	before := s.Versions()

	moved := e2e.NewGitServer(t)
	moved.Run("pull", "-q", s.Git.Work, "main")
	moved.Run("push", "-q", "origin", "main")
	s.Git.Mode.Store("down")
	s.Source(func(spec map[string]any) { spec["git"].(map[string]any)["url"] = moved.URL })
	s.Eventually("the source to follow the other host", func() error {
		if ps := s.ProfileSource(); ps.Status.Repository != moved.URL || !strings.HasSuffix(ps.Status.Revision, first) {
			return fmt.Errorf("it follows %s at %s", ps.Status.Repository, ps.Status.Revision)
		}
		return nil
	})
	after := s.Versions()
	for _, versions := range []map[string]string{before, after} {
		delete(versions, "*v1alpha1.ProfileSource osps") // it was written
	}
	if !maps.Equal(before, after) {
		t.Errorf("before the move\n%v\nafter it\n%v", before, after)
	}
	second := moved.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	bootstrap, _ := s.Served("pool-a", "v1.1.0")
	if got := bootstrap.Annotations[api.AnnotationRepository]; got != moved.URL {
		t.Errorf("what was pushed to the other host is said to be of %q", got)
	}

	s.Stop()
	mirrors, err := filepath.Glob(filepath.Join(s.Cache, "*", "HEAD"))
	if err != nil || len(mirrors) == 0 {
		t.Fatalf("found %d mirrors in %s (err %v)", len(mirrors), s.Cache, err)
	}
	again := e2e.NewGitServer(t)
	for _, head := range mirrors {
		again.Run("--git-dir", filepath.Dir(head), "fsck", "--full")
		cmd := exec.CommandContext(t.Context(), "git", "--git-dir", filepath.Dir(head), "push", "-q", again.Run("remote", "get-url", "origin"), second+":refs/heads/main")
		if out, err := cmd.CombinedOutput(); err != nil && !bytes.Contains(out, []byte(second)) { // the other host's mirror has it not
			t.Fatalf("pushing a mirror: %v\n%s", err, out)
		}
	}
	again.Run("pull", "-q", "origin", "main")
	if got, want := again.Run("log", "--format=%H %an %s"), moved.Run("log", "--format=%H %an %s"); got != want {
		t.Errorf("the history that is restored is\n%s\nwant\n%s", got, want)
	}
}

// A control plane that is restored from an old backup converges to the current state of Git: with
// all current profiles, documents and tokens, and without anything that was deleted since the
// backup.
func TestRestoredFromBackup(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Audit: true})
	var s *system
	t.Cleanup(func() { s.Cluster.Stop() }) // after all other cleanups, the cluster that runs then
	s = &system{e2e.NewSystemOn(t, c)}
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.0.0")
	s.Eventually("its documents", func() error { return s.Applied("pool-a") })
	s.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	// One process is etcd and the API server. What is on disk while it stands still is what a crash leaves.
	s.Must(syscall.Kill(c.StoragePID(), syscall.SIGSTOP))
	func() {
		defer func() { s.Must(syscall.Kill(c.StoragePID(), syscall.SIGCONT)) }() // also if the copy fails
		copyAll(t, c.Dir, backup)
	}()

	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	s.Start()
	s.Ready(second)
	s.Served("pool-a", "v1.1.0")
	s.Pool("pool-b", "osp-a")
	s.Served("pool-b", "v1.1.0")
	s.Stop()
	var lost osm.OperatingSystemProfile
	s.NoError(s.Get(e2e.Namespace, "osp-a-v1.1.0", &lost))

	s.offline(func() {
		if err := os.RemoveAll(c.Dir); err != nil {
			t.Fatal(err)
		}
		copyAll(t, backup, c.Dir)
	})
	if bootstrap, _, err := s.Secrets("pool-a"); err != nil || bootstrap.Annotations[api.AnnotationOSPVersion] != "v1.0.0" {
		t.Fatalf("the backup has not what it should have (err %v)", err)
	}
	third := s.Git.Push(map[string]string{"b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo three")})
	s.Start()
	s.Ready(third)
	bootstrap, provisioning := s.Served("pool-a", "v1.1.0")
	var again osm.OperatingSystemProfile
	s.NoError(s.Get(e2e.Namespace, "osp-a-v1.1.0", &again))
	for _, key := range []string{api.AnnotationDigest, api.AnnotationCommit, api.AnnotationChange} {
		if again.Annotations[key] != lost.Annotations[key] {
			t.Errorf("annotation %s of the profile is %q, and was %q", key, again.Annotations[key], lost.Annotations[key])
		}
	}
	tokens := s.Tokens()
	if len(tokens) != 1 || !bytes.Contains(provisioning.Data[api.UserDataKey], tokens[0].Data["token-id"]) {
		t.Errorf("there are %d bootstrap tokens, or the document has another", len(tokens))
	}
	if got := bootstrap.Annotations[api.AnnotationCommit]; got != second {
		t.Errorf("pool-a is of commit %s, want %s", got, second)
	}
	s.Gone(s.Pools, "pool-b", &machines.MachineDeployment{})
	s.Gone(api.NamespaceCloudInitSettings, "pool-b-"+s.Pools+"-bootstrap-config", &corev1.Secret{})
}

// offline does something while the control plane is down.
func (s *system) offline(do func()) {
	s.T.Helper()
	s.Cluster.Stop()
	do()
	c, err := cluster.Run(s.T.Context(), s.Cluster.Dir, cluster.Options{Audit: true}, os.Stderr)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Cluster, s.Client = c, c.Client(s.T)
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying: %v\n%s", err, out)
	}
}
