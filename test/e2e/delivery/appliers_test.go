package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// appliedBy writes a profile as Flux or Argo CD do: with their marks, by their manager.
func (s *system) appliedBy(manager, profile string, labels, annotations map[string]string) {
	s.T.Helper()
	u := &unstructured.Unstructured{}
	s.Must(yaml.Unmarshal([]byte(profile), &u.Object))
	u.SetNamespace(e2e.Namespace)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	s.Must(s.Client.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership))
}

// applier makes a Kustomization or an Application, to be removed after the test.
func (s *system) applier(cl client.Client, object map[string]any) {
	s.T.Helper()
	u := &unstructured.Unstructured{Object: object}
	s.Must(cl.Create(s.T.Context(), u))
	s.T.Cleanup(func() {
		s.NoError(client.IgnoreNotFound(cl.Delete(context.WithoutCancel(s.T.Context()), u)))
	})
}

// reports patches what an applier says of itself; Applications have no subresource for it.
func (s *system) reports(cl client.Client, kind, name string, status map[string]any) {
	s.T.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	s.Must(err)
	u := &unstructured.Unstructured{}
	u.SetNamespace(s.Pools)
	u.SetName(name)
	u.SetAPIVersion("argoproj.io/v1alpha1")
	u.SetKind(kind)
	if kind == "Application" {
		s.Must(cl.Patch(s.T.Context(), u, client.RawPatch(types.MergePatchType, body)))
		return
	}
	u.SetAPIVersion("kustomize.toolkit.fluxcd.io/v1")
	s.Must(cl.Status().Patch(s.T.Context(), u, client.RawPatch(types.MergePatchType, body)))
}

// came waits until a pool's documents say which revision they came from.
func (s *system) came(pool, version, revision string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("pool %s to come from %q", pool, revision), func() error {
		bootstrap, _, err := s.Secrets(pool)
		if err != nil {
			return err
		}
		a := bootstrap.Annotations
		if a[api.AnnotationOSPVersion] != version || a[api.AnnotationCommit] != revision {
			return fmt.Errorf("it says %q, %q", a[api.AnnotationOSPVersion], a[api.AnnotationCommit])
		}
		return nil
	})
}

// applied waits until a profile says who applied it, and returns its annotations.
func (s *system) applied(profile, by string) map[string]string {
	s.T.Helper()
	var osp osm.OperatingSystemProfile
	s.Eventually(fmt.Sprintf("profile %s to be applied by %s", profile, by), func() error {
		if err := s.Get(e2e.Namespace, profile, &osp); err != nil {
			return err
		}
		if osp.Annotations[api.AnnotationAppliedBy] != by {
			return fmt.Errorf("it says %v", osp.Annotations)
		}
		return nil
	})
	return osp.Annotations
}

// Profiles that Flux and Argo CD apply themselves: records name the revision that those
// name, another commit with the same content changes nothing, and two at one profile are
// both named. Neither is installed at first, and the controller has no rights.
func TestProfilesAppliedByOthers(t *testing.T) {
	s := newSystem(t)
	revision := func(digit string) string { return "main@sha1:" + strings.Repeat(digit, 40) }
	labels := map[string]string{"kustomize.toolkit.fluxcd.io/name": "fleet", "kustomize.toolkit.fluxcd.io/namespace": s.Pools}
	s.Start()
	s.appliedBy("kustomize-controller", e2e.OSP("osp-flux", "v1.0.0", "echo one"), labels, nil)
	s.Pool("pool-flux", "osp-flux")
	s.came("pool-flux", "v1.0.0", "")
	s.Eventually("the profile's origin to be told as unknown", func() error {
		notes := s.EventsIn(e2e.Namespace, "osp-flux", api.EventOriginUnknown)
		if len(notes) == 0 || !e2e.ContainsAll(notes[0], []string{"Kustomization " + s.Pools + "/fleet"}) {
			return fmt.Errorf("events are %q", notes)
		}
		return nil
	})
	s.Stop()

	s.Must(s.Cluster.Apply(t.Context(), e2e.RepoPath("test/flux/crds"), e2e.RepoPath("test/argocd/crds"),
		e2e.RepoPath("pkg/reconcile/profilesource/testdata/flux/source.toolkit.fluxcd.io_gitrepositories.yaml"), e2e.RepoPath("deploy/appliers.yaml")))
	cl := s.Cluster.Client(t) // which knows the new kinds
	s.applier(cl, map[string]any{
		"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": map[string]any{"name": "fleet", "namespace": s.Pools},
		"spec": map[string]any{"url": "https://git:canary@git.example.com/fleet.git", "interval": "1m"},
	})
	s.applier(cl, map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": map[string]any{"name": "fleet", "namespace": s.Pools},
		"spec": map[string]any{"interval": "1m", "prune": true, "path": "./clusters/production", "sourceRef": map[string]any{"kind": "GitRepository", "name": "fleet"}},
	})
	inventory := map[string]any{"entries": []any{map[string]any{"id": e2e.Namespace + "_osp-flux_operatingsystemmanager.k8c.io_OperatingSystemProfile", "v": "v1alpha1"}}}
	settled := func(r string) map[string]any {
		return map[string]any{"lastAttemptedRevision": r, "lastAppliedRevision": r, "inventory": inventory, "conditions": []any{}}
	}
	s.reports(cl, "Kustomization", "fleet", settled(revision("1")))
	s.Start()
	s.came("pool-flux", "v1.0.0", revision("1"))
	if a := s.applied("osp-flux", "Kustomization "+s.Pools+"/fleet"); a[api.AnnotationPath] != "clusters/production/" ||
		a[api.AnnotationRepository] != "https://git.example.com/fleet.git" || strings.Contains(fmt.Sprint(a), "canary") {
		t.Errorf("the profile says %v", a) // security.md 14
	}
	before, _, err := s.Secrets("pool-flux")
	s.Must(err)

	// A commit that does not touch the profile, followed by one that does while Flux still applies
	// the first: Flux then waits for health.
	s.reports(cl, "Kustomization", "fleet", settled(revision("2")))
	s.appliedBy("kustomize-controller", e2e.OSP("osp-flux", "v1.0.0", "echo one"), labels, map[string]string{"unrelated": "yes"})
	s.Pool("pool-late", "osp-flux")
	s.came("pool-late", "v1.0.0", revision("1"))
	after, _, err := s.Secrets("pool-flux")
	s.Must(err)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("an unrelated commit rotated the pool: %v, then %v", before.Annotations, after.Annotations)
	}
	s.reports(cl, "Kustomization", "fleet", map[string]any{"lastAttemptedRevision": revision("3"), "conditions": []any{map[string]any{
		"type": "Reconciling", "status": "True", "reason": "Progressing", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}})
	s.appliedBy("kustomize-controller", e2e.OSP("osp-flux", "v1.1.0", "echo two"), labels, nil)
	s.came("pool-flux", "v1.1.0", revision("3"))
	if code, out, stderr := s.Runs("trace", "--kubeconfig", s.Kubeconfig(), "--namespace", e2e.Namespace, "osp/osp-flux"); code != 0 || !strings.Contains(out, revision("3")) || strings.Contains(out, "edited") {
		t.Errorf("trace ended with %d\n%s%s", code, out, stderr)
	}

	s.applications(cl, labels)
}

// applications is the part of Argo CD, and of both.
func (s *system) applications(cl client.Client, labels map[string]string) {
	s.T.Helper()
	commit := strings.Repeat("a", 40)
	s.applier(cl, map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": "osps", "namespace": s.Pools},
		"spec": map[string]any{
			"project": "default", "destination": map[string]any{"server": "https://kubernetes.default.svc"},
			"source": map[string]any{"repoURL": "https://git.example.com/osps.git", "path": "profiles", "targetRevision": "main"},
		},
	})
	resource := map[string]any{"group": osm.GroupVersion.Group, "version": "v1alpha1", "kind": "OperatingSystemProfile", "namespace": e2e.Namespace, "name": "osp-argo", "status": "Synced"}
	s.reports(cl, "Application", "osps", map[string]any{
		"resources": []any{resource},
		"operationState": map[string]any{
			"phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "operation": map[string]any{},
			"syncResult": map[string]any{
				"revision": commit, "resources": []any{resource},
				"source": map[string]any{"repoURL": "https://git.example.com/osps.git", "path": "profiles", "targetRevision": "main"},
			},
		},
	})
	tracking := func(name string) map[string]string {
		return map[string]string{"argocd.argoproj.io/tracking-id": s.Pools + "_osps:operatingsystemmanager.k8c.io/OperatingSystemProfile:" + e2e.Namespace + "/" + name}
	}
	s.appliedBy("argocd-controller", e2e.OSP("osp-argo", "v1.0.0", "echo one"), nil, tracking("osp-argo"))
	s.Pool("pool-argo", "osp-argo")
	s.came("pool-argo", "v1.0.0", "main@sha1:"+commit)

	// Both at one profile, which a pool has already.
	s.reports(cl, "Kustomization", "fleet", map[string]any{"conditions": []any{}, "lastAppliedRevision": "main@sha1:" + strings.Repeat("3", 40)})
	s.reports(cl, "Application", "osps", map[string]any{"operationState": map[string]any{"phase": "Running"}})
	s.appliedBy("argocd-controller", e2e.OSP("osp-flux", "v1.2.0", "echo three"), labels, tracking("osp-flux"))
	both := []string{"Kustomization " + s.Pools + "/fleet", "Application " + s.Pools + "/osps"}
	s.Event("pool-flux", api.EventTwoAppliers, both...)
	s.came("pool-flux", "v1.1.0", "main@sha1:"+strings.Repeat("3", 40)) // the pool retains its configuration
	s.Eventually("the profile to tell of both", func() error {
		notes := s.EventsIn(e2e.Namespace, "osp-flux", api.EventTwoAppliers)
		if len(notes) == 0 || !e2e.ContainsAll(notes[0], both) {
			return fmt.Errorf("events are %q", notes)
		}
		return nil
	})

	// One that a ProfileSource offers as well: pools have the source's, and it says so; one
	// that has the name of a source's object is refused.
	head := s.Git.Push(map[string]string{"argo.yaml": e2e.OSP("osp-argo", "v2.0.0", "echo source")})
	s.Source()
	s.Ready(head)
	s.Served("pool-argo", "v2.0.0")
	s.Eventually("the source to name who else applies its profile", func() error {
		c := s.ProfileSource().Status.Conditions
		if notes := s.EventsIn(e2e.Namespace, "osps", api.EventTwoAppliers); len(notes) == 0 || !strings.Contains(notes[0], both[1]) || !strings.Contains(fmt.Sprint(c), both[1]) {
			return fmt.Errorf("events are %q, conditions %v", notes, c)
		}
		return nil
	})
	s.appliedBy("argocd-controller", e2e.OSP("osp-taken-v1.0.0", "v1.0.0", "echo taken"), nil, tracking("osp-taken-v1.0.0"))
	s.Git.Push(map[string]string{"taken.yaml": e2e.OSP("osp-taken", "v1.0.0", "echo taken")})
	s.WaitRejected(api.ReasonProfilesInvalid, both[1], `ProfileSource "osps"`, "osp-taken-v1.0.0")
}
