package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// The built-in profiles are there by themselves, give way to Git, come back, and go
// with the flag; all of it with the rights of deploy/rbac.yaml.
func TestBuiltInProfiles(t *testing.T) {
	s := newSystem(t)
	s.start()
	entry := s.builtin("osp-ubuntu")
	if entry.Commit != "" || entry.Path != "profiles/osp-ubuntu.yaml" || !strings.HasSuffix(entry.Object, "-"+entry.Version) {
		t.Errorf("the entry is %+v", entry)
	}
	s.pool("pool-a", "osp-ubuntu")
	bootstrap, _ := s.served("pool-a", entry.Version)
	if got := bootstrap.Annotations[api.AnnotationRepository]; got != "https://github.com/osm-gitops/osm-gitops" {
		t.Errorf("the document says that it is from %q", got)
	}
	s.event("pool-a", api.EventConfigCreated, `made the configuration of profile "osp-ubuntu" `+entry.Version)
	s.sameAsRendered("pool-a")

	commit := s.git.push(map[string]string{"mine.yaml": osp("osp-ubuntu", "v0.1.0", "echo mine")})
	s.source()
	s.ready(commit)
	s.served("pool-a", "v0.1.0")
	if err := s.client.Delete(t.Context(), s.profileSource()); err != nil {
		t.Fatal(err)
	}
	s.served("pool-a", entry.Version)

	var ps api.ProfileSource
	if err := s.get(namespace, api.DefaultsName, &ps); err != nil {
		t.Fatal(err)
	}
	before := ps.UID
	ps.Spec.Path, ps.Spec.Suspend = "other", true
	if err := s.client.Update(t.Context(), &ps); err != nil {
		t.Fatal(err)
	}
	s.eventually("the path to be put back, and nothing else", func() error {
		if err := s.get(namespace, api.DefaultsName, &ps); err != nil {
			return err
		}
		if ps.Spec.Path != "" || !ps.Spec.Suspend {
			return fmt.Errorf("spec is %+v", ps.Spec)
		}
		return nil
	})
	if err := s.client.Delete(t.Context(), &ps); err != nil {
		t.Fatal(err)
	}
	s.eventually("the source to come back", func() error {
		var now api.ProfileSource
		if err := s.get(namespace, api.DefaultsName, &now); err != nil {
			return err
		}
		if now.UID == before {
			return errors.New("it is still the old one")
		}
		return nil
	})
	s.builtin("osp-ubuntu")
	after, _ := s.served("pool-a", entry.Version)

	s.stop()
	s.start("--disable-default-osps")
	s.gone(namespace, api.DefaultsName, &api.ProfileSource{})
	s.event("pool-a", api.EventProfileError, `no ProfileSource in namespace "kube-system" offers a profile "osp-ubuntu"`)
	if kept, _ := s.served("pool-a", entry.Version); kept.UID != after.UID {
		t.Error("the pool lost what it boots from")
	}
}

// builtin waits until a built-in profile is offered.
func (s *system) builtin(name string) api.ProfileEntry {
	s.t.Helper()
	var found api.ProfileEntry
	s.eventually("built-in profile "+name, func() error {
		var ps api.ProfileSource
		if err := s.get(namespace, api.DefaultsName, &ps); err != nil {
			return err
		}
		i := slices.IndexFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == name })
		if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, "Ready") || i < 0 {
			return fmt.Errorf("status is %+v", ps.Status)
		}
		found = ps.Status.Profiles[i]
		return nil
	})
	return found
}

// What `osm-gitops render` makes of a commit is what the cluster has, with the
// repository as it is on the server or cloned.
func TestRenderSaysWhatTheClusterHas(t *testing.T) {
	s := newSystem(t)
	s.git.push(map[string]string{"a.yaml": provenanceOf("v1.0.0"), "b.yaml": osp("osp-b", "v1.0.0", "echo one")})
	s.git.run("checkout", "-q", "-b", "change")
	s.git.run("commit", "-q", "--allow-empty", "-m", "nothing")
	if err := os.WriteFile(filepath.Join(s.git.work, "profiles", "a.yaml"), []byte(provenanceOf("v1.1.0")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.git.run("commit", "-q", "-a", "-m", "a change on a branch")
	s.git.run("checkout", "-q", "main")
	s.git.run("merge", "-q", "--no-ff", "-m", "merge", "change")
	s.begin(s.git.push(map[string]string{"b.yaml": osp("osp-b", "v1.1.0", "echo two")}))
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.1.0")
	s.sameAsRendered("pool-a", "--repo", s.git.url, "--revision", "main", "--path", "profiles", "--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8")
	s.git.run("remote", "set-url", "origin", s.git.url)
	s.sameAsRendered("pool-a", "--repo", s.git.work, "--path", "profiles")
}

func provenanceOf(version string) string {
	return osp("osp-a", version, "echo {{ .Provenance.Repository }} {{ .Provenance.Path }} {{ .Provenance.Commit }} {{ .Provenance.Change }} {{ .Provenance.ConfigDigest }}")
}

// sameAsRendered compares a pool's configuration with that which render prints for
// the settings that the controller has from its flags and its cluster.
func (s *system) sameAsRendered(pool string, args ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	write := func(name string, content any) string {
		s.t.Helper()
		b, err := yaml.Marshal(content)
		if err != nil {
			s.t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			s.t.Fatal(err)
		}
		return path
	}
	md := s.machineDeployment(pool)
	md.TypeMeta = metav1.TypeMeta{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineDeployment"}
	settings := map[string]any{
		"namespace": namespace, "containerRuntime": "containerd", "clusterDNS": []string{"10.10.10.10"},
		"kubeletFeatureGates": map[string]bool{"RotateKubeletServerCertificate": true},
		"nodeNoProxy":         ".svc,.cluster.local,localhost,127.0.0.1",
		"kubernetesCACert":    caOf(s.t, s.cluster),
	}
	values := map[string]any{"server": "https://api.example.com:6443", "apiServerToken": "a.b.c", "bootstrapToken": "abcdef.0123456789abcdef"}
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	args = append([]string{"render", "--machine-deployment", write("md.yaml", md), "--cluster", write("cluster.yaml", map[string]any{"settings": settings, "cluster": values})}, args...)
	out, err := exec.CommandContext(s.t.Context(), path, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			s.t.Fatalf("osm-gitops %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
		}
		s.t.Fatal(err)
	}
	var printed, have osm.OperatingSystemConfig
	if err := yaml.UnmarshalStrict(out, &printed); err != nil {
		s.t.Fatal(err)
	}
	if err := s.get(namespace, pool+"-"+s.pools+"-config", &have); err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(have.Spec, printed.Spec); diff != "" {
		s.t.Errorf("osm-gitops %s: (-cluster +printed)\n%s", strings.Join(args, " "), diff)
	}
}
