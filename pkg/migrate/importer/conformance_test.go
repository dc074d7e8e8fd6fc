package importer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/scaffold"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// TestImportKeepsMeaning imports the profiles of the conformance corpus, reads the
// repository like a ProfileSource, and renders every case before and after: each pool
// retains what it had, which is what the reference generates.
func TestImportKeepsMeaning(t *testing.T) {
	cases := conformance.Cases(t)
	plan := importCorpus(t, cases)
	for _, o := range plan.Profiles {
		if o.Action != importer.ActionCopy && o.Action != importer.ActionOverlay {
			t.Errorf("%s was %s: %s", o.Name, o.Action, o.Why)
		}
	}
	after := sync(t, plan)
	engine := render.NewEngine()
	compared := 0
	for _, c := range cases {
		if c.WantError != "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			before, err := c.Input(t)
			if err != nil {
				t.Fatal(err)
			}
			now, ok := after[before.Profile.Object]
			if !ok {
				t.Fatalf("profile %q is not in the repository", before.Profile.Object)
			}
			was, err := engine.Render(before)
			if err != nil {
				t.Fatal(err)
			}
			in := before
			in.Profile = now
			is, err := engine.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			conformance.CompareUserData(t, was.Bootstrap, is.Bootstrap)
			conformance.CompareUserData(t, was.Provisioning, is.Provisioning)
			conformance.CompareUserData(t, c.WantBootstrap, is.Bootstrap)
			conformance.CompareUserData(t, c.WantProvisioning, is.Provisioning)
			compared++
		})
	}
	if compared < 80 {
		t.Errorf("compared %d cases only", compared)
	}
}

// importCorpus imports the corpus as objects of a cluster: each profile, and each case's
// pool under a unique name.
func importCorpus(t *testing.T, cases []conformance.Case) *importer.Plan {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(conformance.Dir(t), "profiles", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d profiles (err %v): an empty corpus must not pass", len(paths), err)
	}
	var objects []manifest.Object
	read := func(from string, text []byte) []manifest.Object {
		found, err := manifest.Read(from, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, read(path, text)...)
	}
	for i, c := range cases {
		for _, o := range read(c.Name, c.MachineDeploymentYAML) {
			o.Content["metadata"].(map[string]any)["name"] = fmt.Sprintf("pool-%d", i)
			objects = append(objects, o)
		}
	}
	plan, err := importer.New(t.Context(), importer.Input{Objects: objects, Namespace: "kube-system", Builtin: builtin(t)})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// sync writes a plan as a repository, and reads it as the controller does.
func sync(t *testing.T, plan *importer.Plan) map[string]render.Profile {
	t.Helper()
	dir := t.TempDir()
	files, err := scaffold.Repository{Files: plan.Files, Readme: importer.Readme(plan), Host: scaffold.GitHub, Namespace: "kube-system"}.All()
	if err != nil {
		t.Fatal(err)
	}
	if err := scaffold.Write(dir, files, false); err != nil {
		t.Fatal(err)
	}
	author := object.Signature{Name: "Ada", Email: "ada@example.com", When: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	if _, err := scaffold.InitAndCommit(dir, files, "import", author); err != nil {
		t.Fatal(err)
	}
	snap, err := source.Repository{Dir: dir, Path: importer.ProfilesDir}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	engine := render.NewEngine()
	ix := indexer()
	ix.Check = func(d profile.Document) error { return engine.Check(render.Profile{Spec: d.Spec, Digest: d.Digest}) }
	cat, err := ix.Catalog(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range cat.Rejected {
		t.Errorf("the controller would refuse %v", r)
	}
	out := map[string]render.Profile{}
	for _, v := range cat.Current {
		doc, err := ix.Document(t.Context(), snap, v)
		if err != nil {
			t.Fatal(err)
		}
		out[v.Name] = render.Profile{
			Spec: doc.Spec, Object: profile.ObjectName(v.Name, v.Version, v.Digest), Digest: doc.Digest,
			Provenance: render.Provenance{Profile: v.Name, Version: v.Version, Commit: string(v.Commit), Path: v.Path},
		}
	}
	return out
}

// TestReferenceDefaults: the digests of the reference's defaults match the corpus, and no
// other profile has their names.
func TestReferenceDefaults(t *testing.T) {
	dir := conformance.Dir(t)
	defaults, version := importer.ReferenceDefaults()
	for name, want := range defaults {
		path := filepath.Join(dir, "profiles", name+".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := profile.Decode(path, text)
		if err != nil {
			t.Fatal(err)
		}
		if docs[0].Name != name || docs[0].Digest != want || docs[0].Spec.Version != version {
			t.Errorf("%s %s has digest %s, want %s at %s", docs[0].Name, docs[0].Spec.Version, docs[0].Digest, want, version)
		}
	}
	if len(defaults) != 6 {
		t.Errorf("%d defaults, operating-system-manager has 6", len(defaults))
	}
}
