package profile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// maxErrorBytes is far more than a user reads: an error does not repeat a file.
const maxErrorBytes = 64 << 10

// Any file is decoded, or rejected with a short error, and a decoded profile is equal
// after it is encoded again. security.md 11
func FuzzDecode(f *testing.F) {
	for _, pattern := range []string{"../../profiles/*.yaml", "../../examples/repository/profiles/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("found %d files at %s (err %v): an empty glob must not pass", len(paths), pattern, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	for _, seed := range []string{profiletest.Small, bomb(), "a: *b", "--- |\n...\n---", profiletest.Small + "---\n" + profiletest.Small} {
		f.Add([]byte(seed))
	}
	const head = "apiVersion: operatingsystemmanager.k8c.io/v1alpha1\nkind: OperatingSystemProfile\nmetadata: {name: a}\n"
	for _, spec := range []string{
		"spec: {osName: ubuntu, osVersion: '1', version: v1.0.0, supportedCloudProviders: [{name: aws, spec: {a: [1, 2.5, null, 9007199254740993]}}], bootstrapConfig: {}, provisioningConfig: {}}",
		"spec: {osName: ubuntu, osVersion: \"\\u2028\\x7f\", version: v1.0.0+x, supportedCloudProviders: [], bootstrapConfig: {files: [{path: /a, permissions: 1755, content: {inline: {data: \"\\n\\n a\\t\\n\"}}}]}, provisioningConfig: {}}",
		"spec: &a {osName: ubuntu, bootstrapConfig: *a, <<: *a}",
		"spec: {? [a]: b, osName: 1, version: v1, x: !!binary YQ==}\n---\n- a\n--- |\n x\n...\n",
		"spec: {bootstrapConfig: {units: [{name: a.service, enable: true, dropIns: [{name: x.conf, content: y}]}], modules: {yum_repos: {a: {enabled: '1'}}, rh_subscription: {a: b}}}}",
		"spec:\n\tosName: ubuntu\n",
	} {
		f.Add([]byte(head + spec))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		docs, err := Decode("a.yaml", file)
		if err != nil {
			if n := len(err.Error()); n > maxErrorBytes {
				t.Errorf("the error has %d bytes", n)
			}
			if len(docs) > 0 || len(strictyaml.Problems(err)) == 0 {
				t.Errorf("%d profiles and %d problems: %v", len(docs), len(strictyaml.Problems(err)), err)
			}
			return
		}
		for _, doc := range docs {
			again, err := Decode("b.yaml", written(t, doc))
			if err != nil || len(again) != 1 {
				t.Fatalf("%d profiles: %v in\n%s", len(again), err, written(t, doc))
			}
			if diff := cmp.Diff(doc.Spec, again[0].Spec); diff != "" || again[0].Digest != doc.Digest || again[0].Name != doc.Name {
				t.Fatalf("profile %q %s became %q %s (-before +after):\n%s", doc.Name, doc.Digest, again[0].Name, again[0].Digest, diff)
			}
		}
	})
}

// written is a file with the canonical form of a profile.
func written(t *testing.T, doc Document) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"apiVersion": osm.GroupVersion.String(), "kind": "OperatingSystemProfile",
		"metadata": map[string]any{"name": doc.Name}, "spec": doc.Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		t.Fatal(err)
	}
	b, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
