package running

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/permissions"
	"github.com/osm-gitops/osm-gitops/test/platforms"
)

const (
	seedNamespace = "kubermatic"
	seedRights    = "deploy/kkp/seed.yaml"
)

// seedUnused are the rights of deploy/kkp/seed.yaml that this test does not need, by their prefix,
// with the reason.
var seedUnused = map[string]string{
	"list ":                             "API servers without WatchList",
	"get customoperatingsystemprofiles": "a cache that is behind: pkg/reconcile/profilesource, TestCustomProfileBehindTheCache",
	"patch events.events.k8s.io":        "an event that happens again within six minutes: k8s.io/client-go/tools/events",
}

// In a seed of KKP, with two kinds and the rights of deploy/kkp/seed.yaml, profiles of a private
// repository become CustomOperatingSystemProfiles. An edit by hand is restored without a look at
// the repository, and a profile that operating-system-manager cannot render is refused.
func TestSeed(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Audit: true, Kinds: []string{"profilesources"}})
	s := &system{&e2e.System{T: t, Cluster: c, Client: c.Client(t), Git: e2e.NewGitServer(t), Cache: t.TempDir(), Log: &bytes.Buffer{}}}
	t.Cleanup(func() {
		if t.Failed() {
			s.LogMu.Lock()
			t.Logf("the controller's log:\n%s", e2e.Tail(s.Log.String(), 12_000))
			s.LogMu.Unlock()
		}
		s.Stop()
	})
	s.Apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": seedNamespace}})
	if err := c.Apply(t.Context(), e2e.RepoPath(seedRights)); err != nil {
		t.Fatal(err)
	}
	// As docs/kkp-seed.md has it: the right to read the Secret of a private repository.
	s.ApplyYAML(`{apiVersion: v1, kind: Secret, metadata: {name: osps-git, namespace: kubermatic}, stringData: {username: reader, password: right}}`)
	s.ApplyYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: osps-git, namespace: kubermatic}, rules: [{apiGroups: [""], resources: [secrets], resourceNames: [osps-git], verbs: [get]}]}`)
	s.ApplyYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: osps-git, namespace: kubermatic}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: osps-git}, subjects: [{kind: ServiceAccount, name: osm-gitops, namespace: kubermatic}]}`)
	s.Git.Mode.Store("password")
	first := s.Git.Push(map[string]string{
		"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one"),
		"b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo {{ .KubeVersion }}\n            echo {{ .Provenance.Commit }}"),
		"c.yaml": "apiVersion: gitops.k8c.io/v1alpha1\nkind: ProfileOverlay\nmetadata: {name: osp-c}\nspec:\n  version: v2.0.0\n  from: {profile: osp-a, version: v1.0.0}\n  provisioningConfig: {files: {add: [{path: /etc/motd, content: {inline: {data: hello}}}]}}\n",
	})
	s.Apply(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource", "metadata": map[string]any{"name": "osps", "namespace": seedNamespace},
		"spec": map[string]any{"git": map[string]any{"url": s.Git.URL, "timeout": "30s", "secretRef": map[string]any{"name": "osps-git"}}, "path": "profiles", "interval": "1h"},
	})
	s.Identity = s.KubeconfigOf(seedNamespace, "osm-gitops")
	probe := e2e.FreeAddress(t)
	s.Start("--profiles-only=cosp", "--namespace", seedNamespace, "--leader-elect", "--health-probe-address", probe)
	s.probeSays(probe, 503, "CustomOperatingSystemProfile", "where KKP installs this kind")
	crd, err := platforms.SeedCRD()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ApplyObjects(t.Context(), crd); err != nil {
		t.Fatal(err)
	}

	s.custom("osp-a", "v1.0.0", "echo one", first)
	s.custom("osp-c", "v2.0.0", "echo one", first)
	s.seedSays(metav1.ConditionFalse, `profiles/b.yaml:30: spec.provisioningConfig.files[0].content.inline.data: file "/opt/bin/setup": .Provenance.Commit is not template data of operating-system-manager: remove it from this profile`)

	// By hand. The next look at the repository is an hour away.
	var edited osm.CustomOperatingSystemProfile
	if err := s.Get(seedNamespace, "osp-a", &edited); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Patch(t.Context(), &edited, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"v9.0.0","osVersion":"1.0"}}`))); err != nil {
		t.Fatal(err)
	}
	s.custom("osp-a", "v1.0.0", "echo one", first)
	s.Eventually("the edit to be reported", func() error {
		if notes := s.EventsIn(seedNamespace, "osps", api.EventProfileRestored); len(notes) != 1 || !strings.Contains(notes[0], "kubermatic/osp-a was changed by hand") {
			return fmt.Errorf("events are %q", notes)
		}
		return nil
	})

	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two"), "b.yaml": "", "c.yaml": ""})
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: seedNamespace, Name: "osps"}}
	if err := s.Client.Patch(t.Context(), ps, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, second))); err != nil {
		t.Fatal(err)
	}
	s.custom("osp-a", "v1.1.0", "echo two", second)
	s.seedSays(metav1.ConditionTrue, "applied main@sha1:"+second)
	s.Stop()

	log, err := os.Open(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	requests, err := permissions.Requests(log, "system:serviceaccount:"+seedNamespace+":osm-gitops")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := permissions.Read(e2e.RepoPath(seedRights))
	if err != nil {
		t.Fatal(err)
	}
	for q := range requests {
		if q.Forbidden && !permissions.Allowed(rules, q) { // an API server that starts denies what roles allow
			t.Errorf("the controller was forbidden to %s: %s lacks it, or the controller should not ask", q, seedRights)
		}
	}
unused:
	for _, r := range permissions.Unused(rules, requests) {
		for part := range seedUnused {
			if strings.HasPrefix(r.String(), part) {
				continue unused
			}
		}
		t.Errorf("%s allows to %s, which was not needed", seedRights, r)
	}
}

// custom waits for a version of a CustomOperatingSystemProfile.
func (s *system) custom(name, version, script, commit string) {
	s.T.Helper()
	s.Eventually("CustomOperatingSystemProfile "+name+" "+version, func() error {
		var o osm.CustomOperatingSystemProfile
		if err := s.Get(seedNamespace, name, &o); err != nil {
			return err
		}
		files := o.Spec.ProvisioningConfig.Files
		if o.Spec.Version != version || len(files) == 0 || !strings.Contains(files[0].Content.Inline.Data, script) || o.Spec.OSVersion == "1.0" || o.Annotations[api.AnnotationCommit] != commit {
			return fmt.Errorf("it has version %s, annotations %v and files %v", o.Spec.Version, o.Annotations, files)
		}
		return nil
	})
}

// seedSays waits until the Ready condition has a status and contains a text.
func (s *system) seedSays(status metav1.ConditionStatus, text string) {
	s.T.Helper()
	s.Eventually("Ready to say "+text, func() error {
		var ps api.ProfileSource
		if err := s.Get(seedNamespace, "osps", &ps); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(ps.Status.Conditions, "Ready")
		if ready == nil {
			return errors.New("no condition")
		}
		if ready.Status != status || !strings.Contains(ready.Message, text) {
			return fmt.Errorf("it is %s: %s", ready.Status, ready.Message)
		}
		return nil
	})
}
