package bootnodes_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machinesapi "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/profiles"
)

// TestYours boots machines with a user's profile and pool, on every system here that can stand in
// for theirs: make rehearse.
func TestYours(t *testing.T) {
	if os.Getenv(yourProfileEnv) == "" {
		t.Skip("no profile is given: see docs/rehearse.md")
	}
	pool := readPool(t, os.Getenv(yourPoolEnv))
	theCloud(t).accepts(t, pool.GetAnnotations()[api.AnnotationOSP])
	for _, s := range systemsOf(t, pool) {
		t.Run(s.image, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, s, pool.GetName()+"-"+s.image, "first")
			r.on()
			r.finished()
		})
	}
}

// accepts waits until the controller has taken every profile over, or ends the test with
// what it has against them, or because the one that is asked for is none of them.
func (c *cloud) accepts(t *testing.T, profile string) {
	t.Helper()
	var source api.ProfileSource
	c.eventually(t, "the controller takes the profiles over", func() error {
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "profiles"}, &source); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(source.Status.Conditions, meta.ReadyCondition)
		switch {
		case ready == nil:
			return errors.New("it has not looked yet")
		case ready.Reason == api.ReasonProfilesInvalid:
			t.Fatalf("the controller refuses a profile: correct it, then rehearse again\n%s", ready.Message)
		case ready.Status != metav1.ConditionTrue:
			return errors.New(ready.Message)
		}
		return nil
	})
	var names []string
	for _, p := range source.Status.Profiles {
		names = append(names, p.Name)
	}
	if !slices.Contains(names, profile) {
		t.Fatalf("the pool asks for the profile %q, and PROFILE has %q: correct the annotation %s of the pool, or the name of the profile", profile, names, api.AnnotationOSP)
	}
}

// objection returns the controller's reason why a user's pool cannot be served. The pool is created
// before its profile.
func (c *cloud) objection(t *testing.T, pool string) string {
	t.Helper()
	if os.Getenv(yourProfileEnv) == "" {
		return ""
	}
	var events corev1.EventList
	if err := c.client.List(t.Context(), &events, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "MachineDeployment" && e.InvolvedObject.Name == pool && e.Reason == api.EventProfileError {
			return e.Message
		}
	}
	return ""
}

// hopeless is what supervise.sh says when it has tried often enough: nothing but the
// profile goes wrong in a rehearsal of another's.
var hopeless = regexp.MustCompile(`supervise: \S+ ended with status \d+, again in 32 s`)

// despair is the end of a journal in which a step of the profile fails again and again,
// or nothing.
func despair(journal string) string {
	at := hopeless.FindStringIndex(journal)
	if at == nil {
		return ""
	}
	lines := strings.Split(journal[:at[1]], "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// despairs fails the test if the machine cannot become a node.
func (m *machine) despairs() {
	m.t.Helper()
	if end := despair(m.journal("cat")); end != "" {
		m.t.Fatalf("%s will not be a node, for a step of the profile fails again and again: correct what the last of these lines tell of, then rehearse again\n%s", m.name, end)
	}
}

// TestDespair: the supervise.sh of our profiles, from which others' are copied, says what
// is looked for, at the sixth failure and not before.
func TestDespair(t *testing.T) {
	var script string
	for _, file := range profileFiles(t, "osp-ubuntu.yaml") {
		if file.Path == "/opt/bin/supervise.sh" {
			script = file.Content.Inline.Data
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"supervise.sh": script, "setup": "#!/bin/sh\necho there is no motd >&2\nexit 1\n", "sleep": "#!/bin/sh\nif [ \"$1\" = \"$LAST\" ]; then kill $PPID; fi\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for last, hopeless := range map[string]bool{"16": false, "32": true} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "supervise.sh"), filepath.Join(dir, "setup"))
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LAST=" + last}
		out, err := cmd.CombinedOutput()
		end := despair(string(out))
		if err == nil || (end != "") != hopeless || hopeless && !strings.Contains(end, "there is no motd\nsupervise: ") {
			t.Errorf("after a pause of %s s: %v, %q of:\n%s", last, err, end, out)
		}
	}
}

// profileFiles are the files of the bootstrap stage of a profile of ours.
func profileFiles(t *testing.T, name string) []osm.File {
	t.Helper()
	b, err := fs.ReadFile(profiles.FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	var osp osm.OperatingSystemProfile
	if err := yaml.UnmarshalStrict(b, &osp); err != nil {
		t.Fatal(err)
	}
	return osp.Spec.BootstrapConfig.Files
}

// onlyOurs skips a test of the profiles that are shipped where another is rehearsed.
func onlyOurs(t *testing.T) {
	t.Helper()
	if os.Getenv(yourProfileEnv) != "" {
		t.Skip("another's profile is rehearsed")
	}
}

// bringYours copies a user's profile and pool into a folder: the named file, or all files of the
// named folder.
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
