package profilesource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// commitFiles commits files by path, signed with a key. Empty content deletes the file.
func (f *following) commitFiles(key string, files map[string]string) string {
	f.t.Helper()
	for name, content := range files {
		full := filepath.Join(f.dir, name)
		if content == "" {
			f.do(os.Remove(full))
			continue
		}
		f.do(os.MkdirAll(filepath.Dir(full), 0o755))
		f.do(os.WriteFile(full, []byte(content), 0o600))
	}
	f.git("add", "--all")
	f.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+key, "-c", "commit.gpgsign=true", "commit", "--quiet", "--message=change")
	f.push()
	return f.git("rev-parse", "HEAD")
}

// The example with path policies protects what its comment states: if another principal
// than ops commits anything anywhere in the repository, the current version remains that of
// ops, on a cluster that follows the source and on a new one (security.md 32).
func TestExampleOfPathPolicies(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "profilesource-signed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var example api.ProfileSource
	if err := yaml.UnmarshalStrict(raw, &example); err != nil {
		t.Fatal(err)
	}
	const file = "profiles/prod/osp-a.yaml"
	for name, attack := range map[string]map[string]string{
		"a higher version in another folder":      {"profiles/dev/osp-a.yaml": profileFile("v9.0.0", "evil")},
		"a higher version above":                  {"profiles/osp-a.yaml": profileFile("v9.0.0", "evil")},
		"a higher version at the root":            {"osp-a.yaml": profileFile("v9.0.0", "evil")},
		"a higher version in the folder":          {"profiles/prod/x.yaml": profileFile("v9.0.0", "evil")},
		"an ignore file above":                    {"profiles/.osmignore": "/prod/osp-a.yaml\n"},
		"an ignore file above, of the folder":     {"profiles/.osmignore": "prod/\n"},
		"an ignore file at the root":              {".osmignore": "osp-a.yaml\n"},
		"an ignore file in the folder":            {"profiles/prod/.osmignore": "osp-a.yaml\n"},
		"an edit":                                 {file: profileFile("v9.0.0", "evil")},
		"a removal":                               {file: ""},
		"the same version in another folder":      {"profiles/dev/osp-a.yaml": profileFile("v1.1.0", "evil")},
		"many files that fill what is read":       manyFiles("profiles/aaa/"),
		"the folder's name in other letters":      {"profiles/Prod/osp-a.yaml": profileFile("v9.0.0", "evil")},
		"a folder whose name begins as its name":  {"profiles/prod-x/osp-a.yaml": profileFile("v9.0.0", "evil")},
		"a folder of that name in another folder": {"profiles/dev/profiles/prod/osp-a.yaml": profileFile("v9.0.0", "evil")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollowing(t, func(git *api.GitSource) {
				git.Verify, git.OnRewrite = example.Spec.Git.Verify.DeepCopy(), example.Spec.Git.OnRewrite
				git.Verify.SecretRef.Name = "keys"
			})
			f.ps.Spec.Path = example.Spec.Path
			f.spec(func(*api.GitSource) {})
			dev, devLine := f.key("dev@example.com")
			ops, opsLine := f.key("ops@example.com")
			f.secret(devLine + opsLine)
			f.commitFiles(ops, map[string]string{file: profileFile("v1.0.0", "one")})
			f.look()
			f.commitFiles(ops, map[string]string{file: profileFile("v1.1.0", "two")})
			f.look()
			f.commitFiles(dev, attack)
			f.look()
			if e := f.entry("osp-a"); e.Version != "v1.1.0" || e.Removed || e.Path != file {
				t.Errorf("the cluster that follows has %+v", e)
			}
			ps := f.ps.DeepCopy()
			f.ps = &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: ps.Namespace, Name: "new"}, Spec: ps.Spec}
			f.do(f.client.Delete(t.Context(), ps))
			f.do(f.client.Create(t.Context(), f.ps))
			f.restart()
			f.look()
			for _, e := range f.ps.Status.Profiles {
				if e.Name != "osp-a" || e.Version != "v1.1.0" {
					t.Errorf("a new cluster has %+v", e)
				}
			}
		})
	}
}

// manyFiles returns more files than a snapshot contains and lists.
func manyFiles(folder string) map[string]string {
	out := map[string]string{}
	for i := range 3100 {
		out[folder+"x"+strings.Repeat("y", i%50)+string(rune('a'+i/50%26))+string(rune('a'+i/1300))+".yaml"] = "x"
	}
	return out
}

// A rejected file reuses the version of a file in an earlier commit. On a new cluster that
// commit has not been verified, so its content is not applied either (security.md 33).
func TestContentThatNobodyVouchesFor(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) {
		verified("HEAD")(git)
		git.Verify.Paths = []api.PathPrincipals{{Glob: "*.yaml", Principals: []string{"ops@example.com"}}}
	})
	dev, devLine := f.key("dev@example.com")
	ops, opsLine := f.key("ops@example.com")
	f.secret(devLine + opsLine)
	f.commit(ops, "v1.0.0", "one")
	evil := f.commit(dev, "v1.1.0", "evil")
	head := f.commit(ops, "v1.1.0", "good") // the last change is by ops, but with the version that dev used
	f.look()
	f.condition(api.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason, head)
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, "whose signature is not accepted", evil, "is signed by dev@example.com", "give the profile a new version")
	if len(f.ps.Status.Profiles) != 0 {
		t.Errorf("the inventory has %+v", f.ps.Status.Profiles)
	}
	f.applied("main@sha1:" + f.commit(ops, "v1.2.0", "good"))
	if e := f.entry("osp-a"); e.Version != "v1.2.0" {
		t.Errorf("current is %+v", e)
	}
}

// The base of a protected overlay is a built-in profile. A file with the same name and
// version that other principals can change does not replace it (security.md 38).
func TestBaseThatOthersShadow(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) {
		verified("HEAD")(git)
		git.Verify.Paths = []api.PathPrincipals{{Glob: "prod/**", Principals: []string{"ops@example.com"}}}
	})
	bases := &source.Embedded{
		FS:         fstest.MapFS{"osp-b.yaml": {Data: []byte(strings.ReplaceAll(profileFile("v1.0.0", "built-in"), "osp-a", "osp-b"))}},
		Repository: "https://git.example.com/ours", Path: "shipped",
	}
	f.r.Bases = bases
	dev, devLine := f.key("dev@example.com")
	ops, opsLine := f.key("ops@example.com")
	f.secret(devLine + opsLine)
	overlay := func(version, more string) map[string]string {
		return map[string]string{"prod/over.yaml": overlayFile("osp-over", version, "osp-b", "v1.0.0"+more, addsMotd)}
	}
	f.applied("main@sha1:" + f.commitFiles(ops, overlay("v2.0.0", "")))
	f.commitFiles(dev, map[string]string{"dev/x.yaml": strings.ReplaceAll(profileFile("v1.0.0", "evil"), "osp-a", "osp-b")})
	refused := func(version string) {
		t.Helper()
		f.look()
		f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, "prod/over.yaml", "is in dev/x.yaml, which has other signers than prod/over.yaml",
			`paths that match "prod/**" can be changed only by ops@example.com`, "set builtin: true under spec.from of prod/over.yaml")
		if e := f.entry("osp-over"); e.Version != version || e.Removed {
			t.Errorf("the overlay is %+v", e)
		}
	}
	refused("v2.0.0")
	f.commitFiles(ops, overlay("v2.1.0", ""))
	refused("v2.0.0")
	f.applied("main@sha1:" + f.commitFiles(ops, overlay("v2.1.0", ", builtin: true")))
	if files := f.object("osp-over-v2.1.0").Spec.BootstrapConfig.Files; len(files) != 2 || files[0].Content.Inline.Data != "built-in" {
		t.Errorf("the overlay came to %+v", files)
	}
}
