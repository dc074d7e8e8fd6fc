// Package examples_test holds the examples to what they promise: a real API
// server takes each of them, profiles decode and pass every check, and each pool
// renders into documents whose scripts a shell can read.
package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// maxUserDataAWS is the largest user-data EC2 takes, in bytes. machine-controller
// compresses it first, so there is room left.
const maxUserDataAWS = 16 << 10

// TestApply: the API server takes every example, and knows every field of it.
func TestApply(t *testing.T) {
	c := cluster.Shared(t)
	cl := client.WithFieldValidation(c.Client(t), metav1.FieldValidationStrict)
	for _, path := range files(t, "*.yaml", "pools/*.yaml", "repository/profiles/*.yaml") {
		if path == "cluster.yaml" { // for a command line, not for a cluster
			continue
		}
		t.Run(path, func(t *testing.T) {
			for _, o := range objects(t, path) {
				if o.GetKind() == "OperatingSystemProfile" {
					o.SetNamespace(metav1.NamespaceSystem)
				}
				if err := cl.Create(t.Context(), o); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	engine := render.NewEngine()
	for name, doc := range profiles(t) {
		if want := strings.TrimSuffix(filepath.Base(doc.Path), ".yaml"); name != want {
			t.Errorf("%s holds profile %q: call them alike", doc.Path, name)
		}
		if err := engine.Check(render.Profile{Spec: doc.Spec, Digest: doc.Digest, Lines: doc.Line}); err != nil {
			t.Errorf("%s: %v", doc.Path, err)
		}
	}
}

// TestPools: each pool names a profile that is here, and gets from it what
// `osm-gitops render` shows with examples/cluster.yaml.
func TestPools(t *testing.T) {
	profiles := profiles(t)
	var values struct {
		Settings render.Settings `json:"settings"`
		Cluster  render.Cluster  `json:"cluster"`
	}
	if err := yaml.UnmarshalStrict(read(t, "cluster.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	engine := render.NewEngine()
	unused := map[string]bool{}
	for name := range profiles {
		unused[name] = true
	}
	pools, namespaces, providers := 0, map[string]bool{}, map[string]bool{}
	for _, path := range files(t, "pools/*-*-*.yaml") {
		t.Run(path, func(t *testing.T) {
			var md machines.MachineDeployment
			if err := yaml.Unmarshal(read(t, path), &md); err != nil {
				t.Fatal(err)
			}
			if want := md.Namespace + "-" + md.Name + ".yaml"; filepath.Base(path) != want {
				t.Errorf("it is of %s/%s: call the file %s", md.Namespace, md.Name, want)
			}
			pool, err := render.DecodePool(&md)
			if err != nil {
				t.Fatal(err)
			}
			doc, ok := profiles[md.Annotations[api.AnnotationOSP]]
			if !ok {
				t.Fatalf("there is no profile %q", md.Annotations[api.AnnotationOSP])
			}
			delete(unused, doc.Name)
			pools++
			namespaces[md.Namespace], providers[string(pool.CloudProvider)] = true, true
			out, err := engine.Render(render.Input{
				Profile:  render.Profile{Spec: doc.Spec, Digest: doc.Digest, Lines: doc.Line, Provenance: render.Provenance{Profile: doc.Name, Version: doc.Spec.Version}},
				Pool:     pool,
				Settings: values.Settings,
				Cluster:  values.Cluster,
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(out.Bootstrap); n > maxUserDataAWS {
				t.Errorf("its bootstrap user-data has %d bytes, EC2 takes %d", n, maxUserDataAWS)
			}
			checkScripts(t, out.Bootstrap)
			checkScripts(t, out.Provisioning)
			checkSafe(t, out.Bootstrap, values.Cluster.APIServerToken)
		})
	}
	if pools < 4 || len(namespaces) < 2 || len(providers) < 3 {
		t.Errorf("%d pools in %d namespaces at %d providers: show more", pools, len(namespaces), len(providers))
	}
	for name := range unused {
		t.Errorf("no pool uses profile %q", name)
	}
}

// TestSharedParts: the way of a machine to the provisioning stage is the same text in all
// profiles. They do not use overlays, so the text is repeated.
func TestSharedParts(t *testing.T) {
	var first *profile.Document
	for _, doc := range profiles(t) {
		if first == nil {
			first = &doc
			continue
		}
		if a, b := mustYAML(t, first.Spec.BootstrapConfig), mustYAML(t, doc.Spec.BootstrapConfig); a != b {
			t.Errorf("the bootstrap stages of %s and %s differ", first.Path, doc.Path)
		}
	}
}

type userData struct {
	WriteFiles []struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Content     string `json:"content"`
	} `json:"write_files"`
}

func decode(t *testing.T, document []byte) userData {
	t.Helper()
	var out userData
	if err := yaml.Unmarshal(document, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.WriteFiles) == 0 {
		t.Fatal("it writes no files")
	}
	return out
}

// checkScripts lets bash parse every script.
func checkScripts(t *testing.T, document []byte) {
	t.Helper()
	for _, f := range decode(t, document).WriteFiles {
		if !strings.HasPrefix(f.Content, "#!") {
			continue
		}
		if f.Permissions != "0755" {
			t.Errorf("%s is a script of mode %s", f.Path, f.Permissions)
		}
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = strings.NewReader(f.Content)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f.Path, err, out)
		}
	}
}

var unsafeShell = regexp.MustCompile(`--insecure|curl [^\n]*-[a-zA-Z]*k\b|set [^\n]*-[a-z]*x|--verbose`)

// checkSafe: the token lies in one file that only root reads, nothing is traced,
// and no certificate goes unverified.
func checkSafe(t *testing.T, document []byte, token string) {
	t.Helper()
	held := 0
	for _, f := range decode(t, document).WriteFiles {
		if found := unsafeShell.FindString(f.Content); found != "" {
			t.Errorf("%s: %q would show the token or take any certificate", f.Path, found)
		}
		if strings.Contains(f.Content, "curl ") && !strings.Contains(f.Content, "--fail ") {
			t.Errorf("%s: curl without --fail takes an error page for data", f.Path)
		}
		if strings.Contains(f.Content, "/api/v1/") && !strings.Contains(f.Content, "--cacert ") {
			t.Errorf("%s: the API server is asked without its CA", f.Path)
		}
		if strings.Contains(f.Content, token) {
			held++
			if f.Permissions != "0600" {
				t.Errorf("%s holds the token and has mode %s", f.Path, f.Permissions)
			}
		}
	}
	if held != 1 {
		t.Errorf("%d files hold the token, one should", held)
	}
}

// profiles reads the sample repository, by name.
func profiles(t *testing.T) map[string]profile.Document {
	t.Helper()
	out := map[string]profile.Document{}
	for _, path := range files(t, "repository/profiles/*.yaml") {
		docs, err := profile.Decode(path, read(t, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			out[doc.Name] = doc
		}
	}
	if len(out) < 3 {
		t.Fatalf("%d profiles: there were more", len(out))
	}
	return out
}

func objects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for part := range bytes.SplitSeq(read(t, path), []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(part, &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func mustYAML(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func files(t *testing.T, patterns ...string) []string {
	t.Helper()
	var out []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("found %d files at %s (err %v): an empty glob must not pass", len(found), pattern, err)
		}
		out = append(out, found...)
	}
	return out
}
