package rehearsal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	machinesapi "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// TestYours boots machines with a profile and a pool that somebody has written, on every
// system that can play theirs: make rehearse.
func TestYours(t *testing.T) {
	if os.Getenv(yourProfileEnv) == "" {
		t.Skip("no profile is given: see docs/rehearse.md")
	}
	pool := readPool(t, os.Getenv(yourPoolEnv))
	for _, s := range systemsOf(t, pool) {
		t.Run(s.image, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, s, pool.GetName()+"-"+s.image, "first")
			r.on()
			r.finished()
		})
	}
}

// onlyOurs skips a test of the profiles that are shipped where another is rehearsed.
func onlyOurs(t *testing.T) {
	t.Helper()
	if os.Getenv(yourProfileEnv) != "" {
		t.Skip("another's profile is rehearsed")
	}
}

// bringYours copies the profiles into a folder, where machines are made with a profile
// and a pool of somebody's: the file that was named, or the files of the folder.
func bringYours(dir string) error {
	from := os.Getenv(yourProfileEnv)
	if from == "" {
		return nil
	}
	to := filepath.Join(dir, "profiles")
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	paths := []string{from}
	if info, err := os.Stat(from); err != nil {
		return err
	} else if info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(from, "*.yaml")); err != nil || len(paths) == 0 {
			return fmt.Errorf("%s holds %d files *.yaml: %w", from, len(paths), err)
		}
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), b, 0o600); err != nil {
			return err
		}
	}
	return os.Setenv(yourProfileEnv, to)
}

func readPool(t *testing.T, path string) *unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pool := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(b, &pool.Object); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if pool.GetKind() != "MachineDeployment" || pool.GetAPIVersion() != machinesapi.GroupVersion.String() {
		t.Fatalf("%s holds a %s of %s: give one MachineDeployment of %s", path, pool.GetKind(), pool.GetAPIVersion(), machinesapi.GroupVersion)
	}
	if pool.GetAnnotations()[api.AnnotationOSP] == "" {
		t.Fatalf("%s asks for no profile: give it the annotation %s", path, api.AnnotationOSP)
	}
	return pool
}

// systemsOf are copies of ours that play a pool's operating system.
func systemsOf(t *testing.T, pool *unstructured.Unstructured) []*system {
	t.Helper()
	value := []string{"spec", "template", "spec", "providerSpec", "value"}
	name, _, _ := unstructured.NestedString(pool.Object, append(value, "operatingSystem")...)
	utility, _, _ := unstructured.NestedString(pool.Object, append(value, "operatingSystemSpec", "provisioningUtility")...)
	var all []*system
	for _, ours := range systems {
		if ours.os != name || ours.os == "flatcar" && (utility == "cloud-init") != (ours == coreOS) {
			continue
		}
		s := *ours
		s.profile, s.pool, s.kernel, s.like = pool.GetAnnotations()[api.AnnotationOSP], pool, nil, ours
		all = append(all, &s)
	}
	if len(all) == 0 {
		t.Fatalf("no machine plays the operating system %q", name)
	}
	return all
}
