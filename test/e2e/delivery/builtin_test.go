package delivery

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// The built-in profiles exist without configuration, give way to those in Git, return when these
// are removed, and disappear with the flag, all with the rights of deploy/rbac.yaml.
func TestBuiltInProfiles(t *testing.T) {
	s := newSystem(t)
	s.Start()
	entry := s.Builtin("osp-ubuntu")
	if entry.Commit != "" || entry.Path != "profiles/osp-ubuntu.yaml" || !strings.HasSuffix(entry.Object, "-"+entry.Version) {
		t.Errorf("the entry is %+v", entry)
	}
	s.Pool("pool-a", "osp-ubuntu")
	bootstrap, _ := s.Served("pool-a", entry.Version)
	if got := bootstrap.Annotations[api.AnnotationRepository]; got != "https://github.com/osm-gitops/osm-gitops" {
		t.Errorf("the document says that it is from %q", got)
	}
	s.Event("pool-a", api.EventConfigCreated, `made the configuration of profile "osp-ubuntu" `+entry.Version)
	s.sameAsRendered("pool-a")

	commit := s.Git.Push(map[string]string{"mine.yaml": e2e.OSP("osp-ubuntu", "v0.1.0", "echo mine")})
	s.Source()
	s.Ready(commit)
	s.Served("pool-a", "v0.1.0")
	if err := s.Client.Delete(t.Context(), s.ProfileSource()); err != nil {
		t.Fatal(err)
	}
	s.Served("pool-a", entry.Version)

	var ps api.ProfileSource
	if err := s.Get(e2e.Namespace, api.DefaultsName, &ps); err != nil {
		t.Fatal(err)
	}
	before := ps.UID
	ps.Spec.Path, ps.Spec.Suspend = "other", true
	if err := s.Client.Update(t.Context(), &ps); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the path to be put back, and nothing else", func() error {
		if err := s.Get(e2e.Namespace, api.DefaultsName, &ps); err != nil {
			return err
		}
		if ps.Spec.Path != "" || !ps.Spec.Suspend {
			return fmt.Errorf("spec is %+v", ps.Spec)
		}
		return nil
	})
	if err := s.Client.Delete(t.Context(), &ps); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the source to come back", func() error {
		var now api.ProfileSource
		if err := s.Get(e2e.Namespace, api.DefaultsName, &now); err != nil {
			return err
		}
		if now.UID == before {
			return errors.New("it is still the old one")
		}
		return nil
	})
	s.Builtin("osp-ubuntu")
	after, _ := s.Served("pool-a", entry.Version)

	s.Stop()
	s.Start("--disable-default-osps")
	s.Gone(e2e.Namespace, api.DefaultsName, &api.ProfileSource{})
	s.Event("pool-a", api.EventProfileError, `no ProfileSource in namespace "kube-system" offers a profile "osp-ubuntu"`)
	if kept, _ := s.Served("pool-a", entry.Version); kept.UID != after.UID {
		t.Error("the pool lost what it boots from")
	}
}

// `osm-gitops render` of a commit prints what the cluster has, from the repository on the server
// and from a clone.
func TestRenderSaysWhatTheClusterHas(t *testing.T) {
	s := newSystem(t)
	s.Git.Push(map[string]string{"a.yaml": provenanceOf("v1.0.0"), "b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo one")})
	s.Git.Run("checkout", "-q", "-b", "change")
	s.Git.Run("commit", "-q", "--allow-empty", "-m", "nothing")
	if err := os.WriteFile(filepath.Join(s.Git.Work, "profiles", "a.yaml"), []byte(provenanceOf("v1.1.0")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Git.Run("commit", "-q", "-a", "-m", "a change on a branch")
	s.Git.Run("checkout", "-q", "main")
	s.Git.Run("merge", "-q", "--no-ff", "-m", "merge", "change")
	s.Begin(s.Git.Push(map[string]string{"b.yaml": e2e.OSP("osp-b", "v1.1.0", "echo two")}))
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.1.0")
	s.sameAsRendered("pool-a", "--repo", s.Git.URL, "--revision", "main", "--path", "profiles", "--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8")
	s.Git.Run("remote", "set-url", "origin", s.Git.URL)
	s.sameAsRendered("pool-a", "--repo", s.Git.Work, "--path", "profiles")
}

func provenanceOf(version string) string {
	return e2e.OSP("osp-a", version, "echo {{ .Provenance.Repository }} {{ .Provenance.Path }} {{ .Provenance.Commit }} {{ .Provenance.Change }} {{ .Provenance.ConfigDigest }}")
}

// sameAsRendered compares a pool's configuration with that which render prints for
// the settings that the controller has from its flags and its cluster.
func (s *system) sameAsRendered(pool string, args ...string) {
	s.T.Helper()
	dir := s.T.TempDir()
	write := func(name string, content any) string {
		s.T.Helper()
		b, err := yaml.Marshal(content)
		if err != nil {
			s.T.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			s.T.Fatal(err)
		}
		return path
	}
	md := s.MachineDeployment(pool)
	md.TypeMeta = metav1.TypeMeta{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineDeployment"}
	settings := map[string]any{
		"namespace": e2e.Namespace, "containerRuntime": "containerd", "clusterDNS": []string{"10.10.10.10"},
		"kubeletFeatureGates": map[string]bool{"RotateKubeletServerCertificate": true},
		"nodeNoProxy":         ".svc,.cluster.local,localhost,127.0.0.1",
		"kubernetesCACert":    e2e.CaOf(s.T, s.Cluster),
	}
	values := map[string]any{"server": "https://api.example.com:6443", "apiServerToken": "a.b.c", "bootstrapToken": "abcdef.0123456789abcdef"}
	path, err := e2e.Binary()
	if err != nil {
		s.T.Fatal(err)
	}
	args = append([]string{"render", "--machine-deployment", write("md.yaml", md), "--cluster", write("cluster.yaml", map[string]any{"settings": settings, "cluster": values})}, args...)
	out, err := exec.CommandContext(s.T.Context(), path, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			s.T.Fatalf("osm-gitops %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
		}
		s.T.Fatal(err)
	}
	var printed, have osm.OperatingSystemConfig
	if err := yaml.UnmarshalStrict(out, &printed); err != nil {
		s.T.Fatal(err)
	}
	if err := s.Get(e2e.Namespace, pool+"-"+s.Pools+"-config", &have); err != nil {
		s.T.Fatal(err)
	}
	if diff := cmp.Diff(have.Spec, printed.Spec); diff != "" {
		s.T.Errorf("osm-gitops %s: (-cluster +printed)\n%s", strings.Join(args, " "), diff)
	}
}
