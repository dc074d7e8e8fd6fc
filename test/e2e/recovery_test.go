package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// A repository that moves to another host changes nothing for pools, and what is pushed
// there reaches them. One that is lost is in the controller's mirror, whole.
func TestRepositoryMoved(t *testing.T) {
	s := newSystem(t)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.begin(first)
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.0.0")
	s.eventually("its documents", func() error { return s.applied("pool-a") })
	before := s.versions()

	moved := newGitServer(t)
	moved.run("pull", "-q", s.git.work, "main")
	moved.run("push", "-q", "origin", "main")
	s.git.mode.Store("down")
	s.source(func(spec map[string]any) { spec["git"].(map[string]any)["url"] = moved.url })
	s.eventually("the source to follow the other host", func() error {
		if ps := s.profileSource(); ps.Status.Repository != moved.url || !strings.HasSuffix(ps.Status.Revision, first) {
			return fmt.Errorf("it follows %s at %s", ps.Status.Repository, ps.Status.Revision)
		}
		return nil
	})
	after := s.versions()
	for _, versions := range []map[string]string{before, after} {
		delete(versions, "*v1alpha1.ProfileSource osps") // it was written
	}
	if !maps.Equal(before, after) {
		t.Errorf("before the move\n%v\nafter it\n%v", before, after)
	}
	second := moved.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	bootstrap, _ := s.served("pool-a", "v1.1.0")
	if got := bootstrap.Annotations[api.AnnotationRepository]; got != moved.url {
		t.Errorf("what was pushed to the other host is said to be of %q", got)
	}

	s.stop()
	mirrors, err := filepath.Glob(filepath.Join(s.cache, "*", "HEAD"))
	if err != nil || len(mirrors) == 0 {
		t.Fatalf("found %d mirrors in %s (err %v)", len(mirrors), s.cache, err)
	}
	again := newGitServer(t)
	for _, head := range mirrors {
		again.run("--git-dir", filepath.Dir(head), "fsck", "--full")
		cmd := exec.CommandContext(t.Context(), "git", "--git-dir", filepath.Dir(head), "push", "-q", again.run("remote", "get-url", "origin"), second+":refs/heads/main")
		if out, err := cmd.CombinedOutput(); err != nil && !bytes.Contains(out, []byte(second)) { // the other host's mirror has it not
			t.Fatalf("pushing a mirror: %v\n%s", err, out)
		}
	}
	again.run("pull", "-q", "origin", "main")
	if got, want := again.run("log", "--format=%H %an %s"), moved.run("log", "--format=%H %an %s"); got != want {
		t.Errorf("the history that is restored is\n%s\nwant\n%s", got, want)
	}
}

// A control plane that is restored from a backup, older than what was pushed and made
// since, comes to what Git says now: with every profile, document and token that belongs
// to it, and nothing of what is gone.
func TestRestoredFromBackup(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Audit: true})
	var s *system
	t.Cleanup(func() { s.cluster.Stop() }) // the one of then, after all else
	s = newSystemOn(t, c)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.0.0")
	s.eventually("its documents", func() error { return s.applied("pool-a") })
	s.stop()
	backup := filepath.Join(t.TempDir(), "backup")
	s.offline(func() { copyAll(t, c.Dir, backup) })

	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	s.start()
	s.ready(second)
	s.served("pool-a", "v1.1.0")
	s.pool("pool-b", "osp-a")
	s.served("pool-b", "v1.1.0")
	s.stop()
	var lost osm.OperatingSystemProfile
	s.noError(s.get(namespace, "osp-a-v1.1.0", &lost))

	s.offline(func() {
		if err := os.RemoveAll(c.Dir); err != nil {
			t.Fatal(err)
		}
		copyAll(t, backup, c.Dir)
	})
	if bootstrap, _, err := s.secrets("pool-a"); err != nil || bootstrap.Annotations[api.AnnotationOSPVersion] != "v1.0.0" {
		t.Fatalf("the backup has not what it should have (err %v)", err)
	}
	third := s.git.push(map[string]string{"b.yaml": osp("osp-b", "v1.0.0", "echo three")})
	s.start()
	s.ready(third)
	bootstrap, provisioning := s.served("pool-a", "v1.1.0")
	var again osm.OperatingSystemProfile
	s.noError(s.get(namespace, "osp-a-v1.1.0", &again))
	for _, key := range []string{api.AnnotationDigest, api.AnnotationCommit, api.AnnotationChange} {
		if again.Annotations[key] != lost.Annotations[key] {
			t.Errorf("annotation %s of the profile is %q, and was %q", key, again.Annotations[key], lost.Annotations[key])
		}
	}
	tokens := s.tokens()
	if len(tokens) != 1 || !bytes.Contains(provisioning.Data[api.UserDataKey], tokens[0].Data["token-id"]) {
		t.Errorf("there are %d bootstrap tokens, or the document has another", len(tokens))
	}
	if got := bootstrap.Annotations[api.AnnotationCommit]; got != second {
		t.Errorf("pool-a is of commit %s, want %s", got, second)
	}
	s.gone(s.pools, "pool-b", &machines.MachineDeployment{})
	s.gone(api.NamespaceCloudInitSettings, "pool-b-"+s.pools+"-bootstrap-config", &corev1.Secret{})
}

// offline does something while the control plane is down.
func (s *system) offline(do func()) {
	s.t.Helper()
	s.cluster.Stop()
	do()
	c, err := cluster.Run(s.t.Context(), s.cluster.Dir, cluster.Options{Audit: true}, os.Stderr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cluster, s.client = c, c.Client(s.t)
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying: %v\n%s", err, out)
	}
}
