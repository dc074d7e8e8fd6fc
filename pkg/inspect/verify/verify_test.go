package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/apis/meta"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// scene is a cluster fixture whose profiles come from a repository: node "one" of the first
// push, and "two" of the second, which is the current one of pool "workers".
type scene struct {
	t    *testing.T
	e    *clusterfixture.Fixture
	repo *clusterfixture.Repo
	v    *Verifier
}

// original is the scene that every test gets a copy of: its two pushes start git seven times and
// take longer than what most tests do.
var original struct {
	sync.Once
	e    *clusterfixture.Fixture
	repo fstest.MapFS
}

func newScene(t *testing.T) *scene {
	t.Helper()
	original.Do(func() { original.e, original.repo = twoPushes(t) })
	s := &scene{t: t, e: original.e.Copy(t)}
	s.repo = s.e.CopyRepo(t.TempDir(), original.repo)
	s.v = &Verifier{Namespace: clusterfixture.Namespace, Engine: render.NewEngine(), WithoutSecrets: true, Repository: &Repository{Local: source.Repository{Dir: s.repo.Dir}}}
	return s
}

func twoPushes(t *testing.T) (*clusterfixture.Fixture, fstest.MapFS) {
	t.Helper()
	e := clusterfixture.New(t)
	repo := e.NewRepo(t.TempDir())
	repo.Push(0, "echo one")
	e.Pool("workers")
	one := e.Serve("workers", 0, clusterfixture.At(10))
	e.Write("workers", e.Join("workers", "one", clusterfixture.At(20), clusterfixture.Says(one)))
	repo.Push(1, "echo two")
	two := e.Serve("workers", 1, clusterfixture.At(30))
	e.Write("workers", e.Join("workers", "two", clusterfixture.At(40), clusterfixture.Says(two)))
	files, from := fstest.MapFS{}, os.DirFS(repo.Dir)
	err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, files
}

// verify verifies a node, or the pool if the name is "".
func (s *scene) verify(node string) *Report {
	s.t.Helper()
	report, err := s.try(node)
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}

func (s *scene) try(node string) (*Report, error) {
	s.t.Helper()
	snapshot, err := dump.Read(bytes.NewReader(s.e.Dump()))
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := offline.NewClusters(snapshot, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.v.Management, s.v.Worker = c.Management, c.Worker
	if node == "" {
		return s.v.Pool(s.t.Context(), types.NamespacedName{Namespace: clusterfixture.Namespace, Name: "workers"})
	}
	return s.v.Node(s.t.Context(), node)
}

func (s *scene) osc() *osm.OperatingSystemConfig {
	return clusterfixture.Get[*osm.OperatingSystemConfig](s.e, "workers-kube-system-config")
}

func (s *scene) provenance(node string) *api.NodeProvenance {
	for _, obj := range s.e.Objects {
		if np, ok := obj.(*api.NodeProvenance); ok && np.Spec.Node.Name == node {
			return np
		}
	}
	s.t.Fatalf("nothing is known of node %q", node)
	return nil
}

// archived is the record of the first push.
func (s *scene) archived() *appsv1.ControllerRevision {
	for _, obj := range s.e.Objects {
		if cr, ok := obj.(*appsv1.ControllerRevision); ok {
			return cr
		}
	}
	s.t.Fatal("there is no archived record")
	return nil
}

// record edits the record of the pool's configuration. A forged one gets the digest of its
// content.
func (s *scene) record(forged bool, how func(*render.Record)) {
	s.t.Helper()
	osc := s.osc()
	var rec render.Record
	s.do(json.Unmarshal([]byte(osc.Annotations[api.AnnotationRecord]), &rec))
	how(&rec)
	if forged {
		rec.Digests.Input = rec.InputDigest()
		osc.Annotations[api.AnnotationInputDigest] = rec.Digests.Input
		for _, f := range annotationFields(rec, nil) {
			osc.Annotations[strings.TrimPrefix(f.name, "annotation ")] = f.want
		}
		np := s.provenance("two")
		np.Spec.Reported = &api.NodeReport{Config: render.ShortDigest(rec.Digests.Input), Commit: render.LabelValue(rec.Commit)}
		c := np.Spec.Configuration
		c.InputDigest, c.Commit, c.Change, c.Path, c.ProfileDigest, c.Version = rec.Digests.Input, rec.Commit, rec.Change, rec.Path, rec.ObjectDigest, rec.Version
		c.ShortCommit = rec.Commit[:min(12, len(rec.Commit))]
	}
	text, err := json.Marshal(rec)
	s.do(err)
	osc.Annotations[api.AnnotationRecord] = string(text)
}

func (s *scene) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// The verdict names every edited object, and the first difference the place.
func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(s *scene)
		of      string // a node, "" for the pool
		verdict string
		where   string // of the first difference
		found   string
	}{
		"nothing, and a node of what the pool has": {func(*scene) {}, "two", "agrees", "", ""},
		"nothing, and a node of what the pool had": {func(*scene) {}, "one", "agrees", "", ""},
		"nothing, and the pool":                    {func(*scene) {}, "", "agrees", "", ""},
		"a node that is gone":                      {func(s *scene) { s.e.RemoveNode(s.provenance("one"), clusterfixture.At(50)) }, "one", "agrees", "", ""},
		"a label by which a provenance is found":   {func(s *scene) { delete(s.provenance("one").Labels, api.LabelNode) }, "one", "agrees", "", ""},
		"files that were moved, with the path of the source": {func(s *scene) {
			s.repo.Git("mv", "profiles", "moved")
			s.repo.Git("commit", "--quiet", "--message", "move them")
			clusterfixture.Get[*api.ProfileSource](s.e, clusterfixture.Source).Spec.Path = "moved"
		}, "one", "agrees", "", ""},
		"a profile's object that is gone, long ago": {func(s *scene) { clusterfixture.Delete[*osm.OperatingSystemProfile](s.e, "osp-x-v1.0.0") }, "one", "agrees", "", ""},
		"an unknown origin": {func(s *scene) {
			np := s.provenance("one")
			np.Spec.Evidence, np.Spec.Configuration, np.Spec.Explanation = api.EvidenceUnknown, nil, "there is no record"
		}, "one", "unproven", "", ""},

		"the author":       {func(s *scene) { s.provenance("one").Spec.Configuration.Author = "Eve" }, "one", "NodeProvenance differs", "spec.configuration.author", "Eve"},
		"the time":         {func(s *scene) { s.provenance("one").Spec.Configuration.CommittedAt = "2020" }, "one", "NodeProvenance differs", "spec.configuration.committedAt", "2020"},
		"the short commit": {func(s *scene) { s.provenance("one").Spec.Configuration.ShortCommit = "0123" }, "one", "NodeProvenance differs", "spec.configuration.shortCommit", "0123"},
		"the selection":    {func(s *scene) { s.provenance("one").Spec.Configuration.SelectedBy = clusterfixture.Commit(7) }, "one", "NodeProvenance differs", "spec.configuration.selectedBy", clusterfixture.Commit(7)},
		"a selection that the record lacks": {func(s *scene) {
			s.provenance("one").Spec.Configuration.SelectedBy, s.archived().Annotations[api.AnnotationSelectedBy] = clusterfixture.Commit(7), ""
		}, "one", "NodeProvenance differs", "spec.configuration.selectedBy", clusterfixture.Commit(7)},
		"the signature":         {func(s *scene) { s.provenance("one").Spec.Configuration.Signature = "of Eve" }, "one", "NodeProvenance differs", "spec.configuration.signature", "of Eve"},
		"the node's uid":        {func(s *scene) { s.provenance("one").Spec.Node.UID = "1234567890" }, "one", "NodeProvenance differs", "metadata.name", "one."},
		"the pool's uid":        {func(s *scene) { s.provenance("one").Spec.Pool.UID = "other" }, "one", "NodeProvenance differs", "spec.pool.uid", "other"},
		"the MachineSet":        {func(s *scene) { s.provenance("one").Spec.Pool.MachineSet = "other" }, "one", "NodeProvenance differs", "spec.pool.machineSet", "other"},
		"the report":            {func(s *scene) { s.provenance("one").Spec.Reported = nil }, "one", "NodeProvenance differs", "spec.reported", nothing},
		"the reported":          {func(s *scene) { s.provenance("one").Spec.Reported.Config = "0123456789ab" }, "one", "NodeProvenance differs", "spec.configuration.inputDigest, which the node reports", ""},
		"the reported commit":   {func(s *scene) { s.provenance("one").Spec.Reported.Commit = "0123456789ab" }, "one", "NodeProvenance differs", "spec.configuration.commit, which the node reports", ""},
		"a report of no commit": {func(s *scene) { s.provenance("one").Spec.Reported.Commit = "" }, "one", "agrees", "", ""},
		"the window":            {func(s *scene) { s.provenance("one").Spec.Window.Until = metav1.NewTime(clusterfixture.At(1)) }, "one", "NodeProvenance differs", "spec.window", "2026-03-01T12:01:00Z"},
		"the bootstrap document": {func(s *scene) {
			c := s.provenance("two").Spec.Configuration
			s.provenance("two").Spec.Bootstrap = &api.PossibleConfiguration{InputDigest: c.InputDigest, Profile: c.Profile, Version: "v9.9.9", Commit: c.Commit}
		}, "two", "NodeProvenance differs", "spec.bootstrap.version", "v9.9.9"},
		"an older bootstrap document": {func(s *scene) {
			if np := s.reportedBetween("torn"); np.Spec.Bootstrap.InputDigest == np.Spec.Configuration.InputDigest {
				s.t.Fatal("both documents are of one configuration")
			}
		}, "torn", "agrees", "", ""},
		"a bootstrap document of nowhere": {func(s *scene) {
			s.provenance("two").Spec.Bootstrap = &api.PossibleConfiguration{InputDigest: "v1:sha256:" + strings.Repeat("0", 64)}
		}, "two", "NodeProvenance differs", "spec.bootstrap.inputDigest", "v1:sha256:000"},
		"the input digest": {func(s *scene) {
			np := s.provenance("one")
			np.Spec.Configuration.InputDigest, np.Spec.Reported, np.Spec.Evidence = "v1:sha256:"+strings.Repeat("0", 64), nil, api.EvidenceInferred
		}, "one", "NodeProvenance and record differ", "spec.configuration.inputDigest", "v1:sha256:000"},

		"a record that is gone":            {func(s *scene) { clusterfixture.Delete[*appsv1.ControllerRevision](s.e, s.archived().Name) }, "one", "record is missing", "", ""},
		"a record that is no JSON":         {func(s *scene) { s.osc().Annotations[api.AnnotationRecord] = "{" }, "", "record differs", "annotation gitops.k8c.io/record", "something else"},
		"a field of a record":              {func(s *scene) { s.record(false, func(r *render.Record) { r.Path = "evil.yaml" }) }, "two", "record differs", "path", "evil.yaml"},
		"a fact of a pool in a record":     {func(s *scene) { s.record(false, func(r *render.Record) { r.Pool.SSHPublicKeys = []string{"evil"} }) }, "two", "record differs", "digests.input, over all of the record", ""},
		"an output in a record":            {func(s *scene) { s.record(false, func(r *render.Record) { r.Digests.Bootstrap = "evil" }) }, "two", "record differs", "digests.bootstrap", "evil"},
		"an annotation of an archived one": {func(s *scene) { s.archived().Annotations[api.AnnotationCommit] = "evil" }, "one", "record differs", "annotation gitops.k8c.io/commit", "evil"},
		"the times of an archived one":     {func(s *scene) { s.archived().Annotations[api.AnnotationIntervals] = "evil" }, "one", "NodeProvenance differs", "", "something else"},
		"a record of another commit, forged": {func(s *scene) {
			s.record(true, func(r *render.Record) { r.Commit, r.Change = clusterfixture.Commit(1), clusterfixture.Change(1) })
		}, "", "record differs", "commit of osp-x v1.1.0", clusterfixture.Commit(1)},
		"a record of a later commit, forged": {func(s *scene) {
			s.repo.Push(2, "echo three")
			s.record(true, func(r *render.Record) { r.Commit = s.repo.Git("rev-parse", "HEAD") })
		}, "", "record differs", "commit of osp-x v1.1.0", ""},
		"a record after a revert": {func(s *scene) {
			s.repo.Push(2, "echo three")
			s.repo.Git("revert", "--no-edit", "HEAD")
			s.record(true, func(r *render.Record) { r.SelectedBy = s.repo.Git("rev-parse", "HEAD") })
		}, "", "agrees", "", ""},
		"a record that does not say what selected": {func(s *scene) {
			s.record(true, func(r *render.Record) { r.SelectedBy = "" })
		}, "", "agrees", "", ""},
		"a record that was selected by the commit before a revert, forged": {func(s *scene) {
			s.repo.Push(2, "echo three")
			s.record(true, func(r *render.Record) { r.SelectedBy = s.repo.Git("rev-parse", "HEAD") })
			s.repo.Git("revert", "--no-edit", "HEAD")
		}, "", "record differs", "selectedBy", ""},
		"a record that was selected by no commit, forged": {func(s *scene) {
			s.record(true, func(r *render.Record) { r.SelectedBy = "evil" })
		}, "", "record differs", "selectedBy", "evil"},
		"a record of other content, forged": {func(s *scene) {
			s.record(true, func(r *render.Record) { r.ObjectDigest = "v1:sha256:" + strings.Repeat("1", 64) })
		}, "", "record differs", "content of osp-x v1.1.0 at commit", ""},
		"a pool that is said to ask for other keys, forged": {func(s *scene) {
			s.record(true, func(r *render.Record) { r.Pool.SSHPublicKeys = []string{"evil"} })
		}, "", "record and OSC differ", "pool (expected is the request of the MachineDeployment).sshPublicKeys[0]", "evil"},

		"the settings": {func(s *scene) { s.settings().Data["settings.json"] += " " }, "two", "settings differ", "digest of settings.json", "v1:sha256:"},
		"no settings":  {func(s *scene) { clusterfixture.Delete[*corev1.ConfigMap](s.e, s.settings().Name) }, "two", "settings are missing", "", ""},

		"a file of the configuration": {func(s *scene) { s.osc().Spec.BootstrapConfig.Files[0].Content.Inline.Data = "#!/bin/sh\necho evil\n" }, "two", "OSC differs", `spec.bootstrapConfig.files[0] "/opt/bin/bootstrap".content.inline.data`, "echo evil"},
		"a unit more":                 {func(s *scene) { s.osc().Spec.BootstrapConfig.Units = []osm.Unit{{Name: "evil.service"}} }, "", "OSC differs", `spec.bootstrapConfig.units[0] "evil.service"`, "present"},
		"an annotation of it":         {func(s *scene) { s.osc().Annotations[api.AnnotationVersion] = "v9.9.9" }, "two", "OSC differs", "annotation gitops.k8c.io/version", "v9.9.9"},
		"its input digest":            {func(s *scene) { s.osc().Annotations[api.AnnotationInputDigest] = "evil" }, "two", "OSC differs", "annotation gitops.k8c.io/input-digest", "evil"},
		"the profile":                 {func(s *scene) { s.osp().Spec.BootstrapConfig.Files[0].Content.Inline.Data = "#!/bin/sh\necho evil\n" }, "two", "OSP differs", `spec.bootstrapConfig.files[0] "/opt/bin/bootstrap".content.inline.data`, "echo evil"},
		"the profile, with another digest": {func(s *scene) {
			s.osp().Spec.OSVersion = "evil"
			s.e.Redigest(s.osp())
		}, "two", "OSP differs", "spec.osVersion", "evil"},
		"an annotation of the profile": {func(s *scene) { s.osp().Annotations[api.AnnotationAuthor] = "Eve" }, "two", "OSP differs", "annotation gitops.k8c.io/author", "Eve"},
		"no profile":                   {func(s *scene) { clusterfixture.Delete[*osm.OperatingSystemProfile](s.e, "osp-x-v1.1.0") }, "two", "OSP is missing", "", ""},

		"the last commit": {func(s *scene) { s.repo.Git("commit", "--quiet", "--amend", "--message", "another") }, "two", "repository differs", "commit of osp-x v1.1.0", "but is no longer in the history of main; v1.1.0 came with commit"},
		"the first":       {func(s *scene) { s.repo.Git("reset", "--quiet", "--hard", "HEAD~1") }, "two", "repository differs", "commit of osp-x v1.1.0", "but is no longer in the history of main; main has no version v1.1.0 of it"},
		"other content of the same version": {func(s *scene) {
			osp := s.osp().DeepCopy()
			osp.Spec.OSVersion = "evil"
			s.repo.Git("reset", "--quiet", "--hard", "HEAD~1")
			s.repo.Commit(osp)
		}, "two", "repository differs", "commit of osp-x v1.1.0", "instead, with other content"},
		"no branch":     {func(s *scene) { s.repo.Git("branch", "--quiet", "--move", "main", "other") }, "two", "repository differs", "followed revision", nothing},
		"no repository": {func(s *scene) { s.v.Repository.Local.Dir += "/missing" }, "two", "unproven", "", ""},

		"an artifact": {func(s *scene) {
			s.v.Repository = nil
			s.record(true, func(r *render.Record) { r.Commit = "main@sha256:" + strings.Repeat("0", 64) })
		}, "", "OSP differs", "annotation gitops.k8c.io/commit", ""},
		"what was never committed": {func(s *scene) { s.record(true, func(r *render.Record) { r.Version += "-dirty.0123abcd" }) }, "", "OSP differs", "annotation gitops.k8c.io/version", ""},
		"another engine":           {func(s *scene) { s.record(false, func(r *render.Record) { r.Engine = "v0" }) }, "two", "another release is needed", "", ""},
		"another engine and more": {func(s *scene) {
			s.record(false, func(r *render.Record) { r.Engine = "v0" })
			s.osp().Annotations[api.AnnotationAuthor] = "Eve"
		}, "two", "OSP differs", "annotation gitops.k8c.io/author", "Eve"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.do(s)
			report := s.verify(c.of)
			text, err := json.MarshalIndent(report, "", "  ")
			s.do(err)
			if report.Verdict != c.verdict {
				t.Fatalf("verdict %q, want %q\n%s", report.Verdict, c.verdict, text)
			}
			if strings.Contains(string(text), "canary") {
				t.Errorf("a credential is told\n%s", text) // shows a credential
			}
			first := report.FirstDifference()
			if c.where == "" && c.found == "" {
				return
			}
			if first == nil || first.Difference == nil || !strings.Contains(first.Difference.Field, c.where) || !strings.Contains(first.Difference.Found, c.found) {
				t.Errorf("the first difference is not at %q with %q\n%s", c.where, c.found, text)
			}
		})
	}
}

// If everything agrees, the report still lists what was compared and what was not.
func TestChecks(t *testing.T) {
	const osc, archived = "OperatingSystemConfig kube-system/workers-kube-system-config", "ControllerRevision kube-system/workers-kube-system-"
	pool := []string{
		"record|" + osc + "|agrees", "settings|ConfigMap kube-system/osm-gitops-settings-|agrees", "repository|" + clusterfixture.Repository + "|agrees",
		"OSP|OperatingSystemProfile osp-x-v1.1.0|agrees", "OSC|" + osc + "|agrees", "Secret|cloud-init-settings/workers-kube-system-*|skipped",
	}
	for name, want := range map[string][]string{
		"":    pool,
		"two": slices.Concat([]string{"NodeProvenance|two.|agrees"}, pool),
		"one": {
			"NodeProvenance|one.|agrees", "record|" + archived + "|agrees", "settings|ConfigMap kube-system/osm-gitops-settings-|agrees",
			"repository|" + clusterfixture.Repository + "|agrees", "OSP|OperatingSystemProfile osp-x-v1.0.0|agrees", "OSC|" + osc + "|skipped",
		},
	} {
		report := newScene(t).verify(name)
		if len(report.Checks) != len(want) {
			t.Errorf("%q: got %d checks, want %d: %+v", name, len(report.Checks), len(want), report.Checks)
			continue
		}
		for i, c := range report.Checks {
			thing, rest, _ := strings.Cut(want[i], "|")
			prefix, result, _ := strings.Cut(rest, "|")
			if string(c.Thing) != thing || !strings.HasPrefix(c.Name, prefix) || string(c.Result) != result {
				t.Errorf("%q: check %d is %+v, want %s", name, i, c, want[i])
			}
		}
	}
}

func (s *scene) osp() *osm.OperatingSystemProfile {
	return clusterfixture.Get[*osm.OperatingSystemProfile](s.e, "osp-x-v1.1.0")
}

func (s *scene) settings() *corev1.ConfigMap {
	for _, obj := range s.e.Objects {
		if cm, ok := obj.(*corev1.ConfigMap); ok {
			return cm
		}
	}
	s.t.Fatal("there are no settings")
	return nil
}

// asked records which repositories are fetched, and contains none.
type asked []string

func (a *asked) Fetch(_ context.Context, r source.Remote) (*source.Snapshot, error) {
	*a = append(*a, r.URL+" "+r.Revision+r.Branch+" "+r.Path)
	return nil, source.ErrUnreachable
}

// The repository is read with the ProfileSource's credentials if it has the recorded URL.
// Another URL from a record is read without credentials, or not at all if others decide
// what is verified (security.md 9).
func TestWhomToAsk(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s *scene, ps *api.ProfileSource)
		want asked
	}{
		"the ProfileSource's": {func(*scene, *api.ProfileSource) {}, asked{clusterfixture.Repository + " main "}},
		"its branch, its folder": {func(_ *scene, ps *api.ProfileSource) {
			ps.Spec.Git.Ref, ps.Spec.Path = &api.GitReference{Branch: "b"}, "profiles"
		}, asked{clusterfixture.Repository + " b profiles"}},
		"it follows another by now": {func(_ *scene, ps *api.ProfileSource) { ps.Status.Repository = "https://git.example.com/other" }, asked{clusterfixture.Repository + " HEAD profiles"}},
		"and the record does not count": {func(s *scene, ps *api.ProfileSource) {
			ps.Status.Repository, s.v.FollowedOnly = "https://git.example.com/other", true
		}, nil},
		"that of its object, of two": {func(s *scene, ps *api.ProfileSource) { s.other("a", ps).Spec.Git.Ref = &api.GitReference{Branch: "b"} },
			asked{clusterfixture.Repository + " main "}},
		"one that offers it, if its object names none": {func(s *scene, ps *api.ProfileSource) {
			offers := s.other("z", ps)
			offers.Spec.Git.Ref = &api.GitReference{Branch: "b"}
			elsewhere := s.other("0", ps)
			elsewhere.Status.Repository, elsewhere.Spec.Git.Ref = "https://git.example.com/other", &api.GitReference{Branch: "c"}
			ps.Status.Profiles = nil
			s.osp().Labels[api.LabelSource] = "gone"
		}, asked{clusterfixture.Repository + " b "}},
		"one of its repository, if none offers it": {func(s *scene, ps *api.ProfileSource) {
			elsewhere := s.other("0", ps)
			elsewhere.Status.Repository, elsewhere.Spec.Git.Ref = "https://git.example.com/other", &api.GitReference{Branch: "c"}
			ps.Status.Profiles, elsewhere.Status.Profiles = nil, nil
			s.osp().Labels[api.LabelSource] = "gone"
		}, asked{clusterfixture.Repository + " main "}},
		"its credentials are not there": {func(_ *scene, ps *api.ProfileSource) {
			ps.Spec.Git.SecretRef = &meta.LocalObjectReference{Name: "none"}
		}, nil},
	} {
		s := newScene(t)
		var got asked
		s.v.Repository, s.v.Git = nil, &got
		c.do(s, clusterfixture.Get[*api.ProfileSource](s.e, clusterfixture.Source))
		if verdict := s.verify("two").Verdict; verdict != "unproven" || !slices.Equal(got, c.want) {
			t.Errorf("%s: verdict %q, asked %q, want %q", name, verdict, got, c.want)
		}
	}
}

// The folder of a profile at the top of a repository is ".", and its path there is empty.
func TestRepositoryInAnotherFolder(t *testing.T) {
	for _, place := range []Repository{{Remote: source.Remote{URL: "https://git.example.com/a"}}, {Local: source.Repository{Dir: "/srv/a"}}} {
		for from, folders := range map[string]map[string]bool{
			"":         {".": false, "profiles": true},
			"profiles": {".": true, "profiles": false, "other": true},
		} {
			for folder, another := range folders {
				r := &repository{location: place, indexer: &catalog.Indexer{}}
				r.location.Remote.Path, r.location.Local.Path = from, from
				got := r.withFolder(folder)
				if (got != nil) != another {
					t.Errorf("from %q to %q: another repository: %t", from, folder, got != nil)
				}
				if got == nil {
					continue
				}
				path := got.location.Remote.Path
				if got.location.Local.Dir != "" {
					path = got.location.Local.Path
				}
				if want := strings.TrimPrefix(folder, "."); path != want {
					t.Errorf("from %q to %q: reads %q", from, folder, path)
				}
			}
		}
	}
}

// A clone without history proves nothing, and the report says how to complete it.
func TestShallowClone(t *testing.T) {
	s := newScene(t)
	shallow := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--depth=1", "file://"+s.repo.Dir, shallow).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.v.Repository = &Repository{Local: source.Repository{Dir: shallow}}
	report := s.verify("two")
	if !slices.ContainsFunc(report.Checks, func(c Check) bool { return strings.Contains(c.Note, "git fetch --unshallow") }) || report.Verdict != "unproven" {
		t.Errorf("verdict %q: %+v", report.Verdict, report.Checks)
	}
}

// A configuration in which the API server has set defaults equals one without them, and no other.
func TestDefaultsAreNoDifference(t *testing.T) {
	with := func(mode int32, utility osm.ProvisioningUtility) osm.OperatingSystemConfigSpec {
		files := osm.OSCConfig{Files: []osm.File{{Path: "/a", Permissions: mode}}}
		return osm.OperatingSystemConfigSpec{ProvisioningUtility: utility, BootstrapConfig: files, ProvisioningConfig: files}
	}
	rendered := withSchemaDefaults(with(0, ""))
	for name, c := range map[string]struct {
		spec  osm.OperatingSystemConfigSpec
		equal bool
	}{
		"as rendered":       {with(0, ""), true},
		"with defaults":     {with(osm.DefaultFilePermissions, osm.ProvisioningUtilityCloudInit), true},
		"another mode":      {with(0o600, ""), false},
		"another utility":   {with(0, osm.ProvisioningUtilityIgnition), false},
		"without executing": {with(osm.DefaultFilePermissions+1, ""), false},
	} {
		if d := compareValues("spec", rendered, withSchemaDefaults(c.spec)); (d == nil) != c.equal {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// other adds another ProfileSource with the spec of an existing one.
func (s *scene) other(name string, like *api.ProfileSource) *api.ProfileSource {
	other := like.DeepCopy()
	other.Name = name
	s.e.Objects = append(s.e.Objects, other)
	return other
}

// Missing objects are errors that name where they were searched.
func TestNotThere(t *testing.T) {
	s := newScene(t)
	if _, err := s.try("nobody"); err == nil || !strings.Contains(err.Error(), `no NodeProvenance of a node "nobody"`) {
		t.Errorf("got %v", err)
	}
	clusterfixture.Delete[*osm.OperatingSystemConfig](s.e, "workers-kube-system-config")
	if _, err := s.try(""); err == nil || !strings.Contains(err.Error(), "OperatingSystemConfig kube-system/workers-kube-system-config not found") {
		t.Errorf("got %v", err)
	}
	if got := s.verify("two").Verdict; got != "record is missing" {
		t.Errorf("a node whose configuration is gone: %s", got)
	}
}

// For an artifact built from a commit, that commit proves the content if its repository is
// given; Flux itself has no history.
func TestArtifact(t *testing.T) {
	s := newScene(t)
	osp := s.repo.Push(2, "echo three")
	osp.Annotations[api.AnnotationCommit] = "main@sha1:" + osp.Annotations[api.AnnotationCommit]
	for _, k := range []string{api.AnnotationChange, api.AnnotationAuthor, api.AnnotationCommittedAt} {
		delete(osp.Annotations, k)
	}
	s.e.Serve("workers", 2, clusterfixture.At(50))
	if got := s.verify("").Verdict; got != VerdictAgrees {
		t.Errorf("with the repository: %s", got)
	}
	given := s.v.Repository
	s.v.Repository = nil
	report := s.verify("")
	if i := slices.IndexFunc(report.Checks, func(c Check) bool { return c.Thing == ThingRepository }); report.Verdict != "unproven" || !strings.Contains(report.Checks[i].Note, "has no history: name the Git repository with --repo") {
		t.Errorf("without: %+v", report)
	}
	s.v.Repository = given
	osp.Spec.OSVersion = "evil"
	s.e.Redigest(osp)
	s.e.Serve("workers", 2, clusterfixture.At(60))
	if got := s.verify("").Verdict; got != "record and OSP differ" {
		t.Errorf("other content: %s", got)
	}
}
