package delivery

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// profile is an OperatingSystemProfile of the controller's namespace.
func (s *system) profile(name string) *osm.OperatingSystemProfile {
	s.T.Helper()
	var osp osm.OperatingSystemProfile
	if err := s.Get(e2e.Namespace, name, &osp); err != nil {
		s.T.Fatal(err)
	}
	return &osp
}

// TestVersions is the life of versions, with the rights of deploy/rbac.yaml: pins, ranges,
// rollback, suspend, removal, and the end of the source.
func TestVersions(t *testing.T) {
	s := newSystem(t)
	commits := map[string]string{}
	s.Git.Push(map[string]string{"b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo")})
	for _, v := range []string{"v1.0.0", "v1.0.1", "v1.1.0", "v1.2.0", "v1.3.0"} {
		commits[v] = s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", v, "echo "+v)})
	}
	// A cluster that starts today.
	s.Source(func(spec map[string]any) { spec["historyLimit"] = 1 })
	s.Start()
	s.Ready(commits["v1.3.0"])
	s.Eventually("the newest earlier version", func() error { return s.Get(e2e.Namespace, "osp-a-v1.2.0", &osm.OperatingSystemProfile{}) })
	if err := s.Get(e2e.Namespace, "osp-a-v1.0.1", &osm.OperatingSystemProfile{}); !apierrors.IsNotFound(err) {
		t.Errorf("an earlier version is there that nobody asks for: %v", err)
	}
	s.Pool("free", "osp-a")
	s.Served("free", "v1.3.0")

	s.Run("a version and a range that only the history has", func(t *testing.T) {
		s.Pool("exact", "osp-a", e2e.Annotate(api.AnnotationVersionPin, "v1.0.0"))
		s.Pool("range", "osp-a", e2e.Annotate(api.AnnotationVersionPin, "~1.0"))
		for pool, version := range map[string]string{"exact": "v1.0.0", "range": "v1.0.1"} {
			bootstrap, provisioning := s.Served(pool, version)
			for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
				if a := secret.Annotations; a[api.AnnotationCommit] != commits[version] || a[api.AnnotationSelectedBy] != commits[version] {
					t.Errorf("%s is of commit %s, selected by %s, want %s", secret.Name, a[api.AnnotationCommit], a[api.AnnotationSelectedBy], commits[version])
				}
			}
			if !bytes.Contains(provisioning.Data[api.UserDataKey], []byte("echo "+version)) {
				t.Errorf("the document of %s is of another version", pool)
			}
		}
	})
	s.Run("a version that nobody ever had", func(t *testing.T) {
		before, _ := s.Served("exact", "v1.0.0")
		s.Set("exact", api.AnnotationVersionPin, "v1.0.7")
		s.Event("exact", api.EventProfileError, `has no version "v1.0.7"`, "nearest are", "v1.1.0, v1.0.1, v1.0.0")
		if after, _ := s.Served("exact", "v1.0.0"); after.ResourceVersion != before.ResourceVersion {
			t.Error("the document was written")
		}
		s.Set("exact", api.AnnotationVersionPin, "v1.0.0")
		s.Event("exact", api.EventConfigHealed)
	})
	s.Run("rollback by revert", func(t *testing.T) {
		uid := s.profile("osp-a-v1.2.0").UID
		s.Git.Run("revert", "--no-edit", "HEAD")
		s.Git.Run("push", "-q", "origin", "main")
		revert := s.Git.Run("rev-parse", "HEAD")
		s.Ready(revert)
		bootstrap, _ := s.Served("free", "v1.2.0")
		if a := bootstrap.Annotations; a[api.AnnotationCommit] != commits["v1.2.0"] || a[api.AnnotationSelectedBy] != revert {
			t.Errorf("the document is of commit %s, selected by %s", a[api.AnnotationCommit], a[api.AnnotationSelectedBy])
		}
		if s.profile("osp-a-v1.2.0").UID != uid {
			t.Error("the version is another object")
		}
	})
	s.Run("suspend", func(t *testing.T) {
		s.Set("free", api.AnnotationSuspend, "true")
		s.Event("free", api.EventConfigSuspended, `frozen at profile "osp-a" v1.2.0`)
		commits["v1.4.0"] = s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.4.0", "echo v1.4.0")})
		s.Ready(commits["v1.4.0"])
		s.Set("free", api.AnnotationMDRevision, "2")
		s.Eventually("the revision to follow", func() error {
			bootstrap, provisioning, err := s.Secrets("free")
			if err != nil {
				return err
			}
			if bootstrap.Annotations[api.AnnotationRevisionFor] != "2" || provisioning.Annotations[api.AnnotationRevisionFor] != "2" {
				return errors.New("not yet")
			}
			return nil
		})
		s.Served("free", "v1.2.0")
		s.Set("free", api.AnnotationSuspend, "")
		s.Served("free", "v1.4.0")
		s.Event("free", api.EventConfigResumed)
	})
	s.Run("pruning", func(t *testing.T) {
		s.profile("osp-a-v1.2.0") // the record of a pool refers to it
		s.forget()
		s.Gone(e2e.Namespace, "osp-a-v1.2.0", &osm.OperatingSystemProfile{})
		s.profile("osp-a-v1.0.0") // pinned
	})
	s.Run("a profile that leaves the repository", func(t *testing.T) {
		s.Ready(s.Git.Push(map[string]string{"a.yaml": ""}))
		s.Pool("new", "osp-a")
		s.Event("new", api.EventProfileError, `profile "osp-a" was removed from ProfileSource "osps"`)
		before, _ := s.Served("exact", "v1.0.0")
		s.Set("exact", "example.com/anything", "new")
		if after, _ := s.Served("exact", "v1.0.0"); after.UID != before.UID {
			t.Error("the document was made anew")
		}
	})
	s.Run("the end of the source", func(t *testing.T) {
		s.forget()
		if err := s.Client.Delete(t.Context(), s.ProfileSource()); err != nil {
			t.Fatal(err)
		}
		s.Gone(e2e.Namespace, "osps", &api.ProfileSource{})
		s.Eventually("an event that names what is left", func() error {
			notes := s.EventsIn(e2e.Namespace, "osps", api.EventProfilesLeft)
			if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasSuffix(n, ": osp-a-v1.0.0, osp-a-v1.0.1, osp-a-v1.4.0") }) {
				return fmt.Errorf("events are %q", notes)
			}
			return nil
		})
		s.profile("osp-a-v1.0.0")
		s.Served("free", "v1.4.0")
	})
}

// security.md 24: with the rights of deploy/ alone, profiles of another namespace are denied;
// with its Role and the flag they are served, and their ProfileSources are left to the
// controller of that namespace.
func TestProfilesOfAnotherNamespace(t *testing.T) {
	s := newSystem(t)
	other := s.Cluster.Namespace(t)
	s.ApplyYAML(strings.Replace(e2e.OSP("osp-far", "v1.0.0", "echo far"), "name: osp-far", "name: osp-far\n  namespace: "+other, 1))
	s.Apply(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "theirs", "namespace": other},
		"spec":     map[string]any{"git": map[string]any{"url": s.Git.URL}},
	})
	s.Start()
	s.Builtin("osp-ubuntu")
	s.Pool("far", "osp-far", e2e.Annotate(api.AnnotationOSPNamespace, other))
	s.Event("far", api.EventProfileError, `must not take profiles from namespace "`+other+`"`, "--allow-cross-namespace-profiles="+other)
	if _, _, err := s.Secrets("far"); !apierrors.IsNotFound(err) {
		t.Errorf("something was made for it: %v", err)
	}
	s.Stop()

	manifests, err := os.ReadFile(e2e.RepoPath("deploy/cross-namespace-profiles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range strings.Split(strings.ReplaceAll(string(manifests), "namespace: platform", "namespace: "+other), "\n---\n") {
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(manifest), &obj); err != nil {
			t.Fatal(err)
		}
		s.Apply(obj)
	}
	s.Start("--allow-cross-namespace-profiles", other)
	s.Served("far", "v1.0.0")
	var osc osm.OperatingSystemConfig
	if err := s.Get(e2e.Namespace, "far-"+s.Pools+"-config", &osc); err != nil || !strings.Contains(osc.Annotations[api.AnnotationRecord], `"object":"`+other+`/osp-far"`) {
		t.Errorf("the record is %s (err %v)", osc.Annotations[api.AnnotationRecord], err)
	}
	var theirs api.ProfileSource
	if err := s.Get(other, "theirs", &theirs); err != nil || len(theirs.Finalizers) > 0 || len(theirs.Status.Conditions) > 0 {
		t.Errorf("somebody else's source was touched: %+v (err %v)", theirs, err)
	}
	if err := s.Client.Delete(t.Context(), &theirs); err != nil {
		t.Fatal(err)
	}
}

// forget deletes the records of earlier configurations, as --config-history-limit does over time,
// and restarts the controller, which otherwise trusts for minutes that a record exists.
func (s *system) forget() {
	s.T.Helper()
	s.Stop()
	defer s.Start()
	s.NoError(s.Client.DeleteAllOf(s.T.Context(), &appsv1.ControllerRevision{}, client.InNamespace(e2e.Namespace), client.HasLabels{api.LabelPool}))
}
