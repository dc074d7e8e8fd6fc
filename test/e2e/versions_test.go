package e2e

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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// set sets an annotation of a pool; "" removes it.
func (s *system) set(pool, key, value string) {
	s.t.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text)))
	if err := s.client.Patch(s.t.Context(), s.machineDeployment(pool), patch); err != nil {
		s.t.Fatal(err)
	}
}

// profile is an OperatingSystemProfile of the controller's namespace.
func (s *system) profile(name string) *osm.OperatingSystemProfile {
	s.t.Helper()
	var osp osm.OperatingSystemProfile
	if err := s.get(namespace, name, &osp); err != nil {
		s.t.Fatal(err)
	}
	return &osp
}

// TestVersions is the life of versions, with the rights of deploy/rbac.yaml: pins, ranges,
// rollback, suspend, removal, and the end of the source.
func TestVersions(t *testing.T) {
	s := newSystem(t)
	commits := map[string]string{}
	s.git.push(map[string]string{"b.yaml": osp("osp-b", "v1.0.0", "echo")})
	for _, v := range []string{"v1.0.0", "v1.0.1", "v1.1.0", "v1.2.0", "v1.3.0"} {
		commits[v] = s.git.push(map[string]string{"a.yaml": osp("osp-a", v, "echo "+v)})
	}
	// A cluster that starts today.
	s.source(func(spec map[string]any) { spec["historyLimit"] = 1 })
	s.start()
	s.ready(commits["v1.3.0"])
	s.eventually("the newest earlier version", func() error { return s.get(namespace, "osp-a-v1.2.0", &osm.OperatingSystemProfile{}) })
	if err := s.get(namespace, "osp-a-v1.0.1", &osm.OperatingSystemProfile{}); !apierrors.IsNotFound(err) {
		t.Errorf("an earlier version is there that nobody asks for: %v", err)
	}
	s.pool("free", "osp-a")
	s.served("free", "v1.3.0")

	s.run("a version and a range that only the history has", func(t *testing.T) {
		s.pool("exact", "osp-a", annotate(api.AnnotationVersionPin, "v1.0.0"))
		s.pool("range", "osp-a", annotate(api.AnnotationVersionPin, "~1.0"))
		for pool, version := range map[string]string{"exact": "v1.0.0", "range": "v1.0.1"} {
			bootstrap, provisioning := s.served(pool, version)
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
	s.run("a version that nobody ever had", func(t *testing.T) {
		before, _ := s.served("exact", "v1.0.0")
		s.set("exact", api.AnnotationVersionPin, "v1.0.7")
		s.event("exact", api.EventProfileError, `has no version "v1.0.7"`, "nearest are", "v1.1.0, v1.0.1, v1.0.0")
		if after, _ := s.served("exact", "v1.0.0"); after.ResourceVersion != before.ResourceVersion {
			t.Error("the document was written")
		}
		s.set("exact", api.AnnotationVersionPin, "v1.0.0")
		s.event("exact", api.EventConfigHealed)
	})
	s.run("rollback by revert", func(t *testing.T) {
		uid := s.profile("osp-a-v1.2.0").UID
		s.git.run("revert", "--no-edit", "HEAD")
		s.git.run("push", "-q", "origin", "main")
		revert := s.git.run("rev-parse", "HEAD")
		s.ready(revert)
		bootstrap, _ := s.served("free", "v1.2.0")
		if a := bootstrap.Annotations; a[api.AnnotationCommit] != commits["v1.2.0"] || a[api.AnnotationSelectedBy] != revert {
			t.Errorf("the document is of commit %s, selected by %s", a[api.AnnotationCommit], a[api.AnnotationSelectedBy])
		}
		if s.profile("osp-a-v1.2.0").UID != uid {
			t.Error("the version is another object")
		}
	})
	s.run("suspend", func(t *testing.T) {
		s.set("free", api.AnnotationSuspend, "true")
		s.event("free", api.EventConfigSuspended, `frozen at profile "osp-a" v1.2.0`)
		commits["v1.4.0"] = s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.4.0", "echo v1.4.0")})
		s.ready(commits["v1.4.0"])
		s.set("free", api.AnnotationMDRevision, "2")
		s.eventually("the revision to follow", func() error {
			bootstrap, provisioning, err := s.secrets("free")
			if err != nil {
				return err
			}
			if bootstrap.Annotations[api.AnnotationRevisionFor] != "2" || provisioning.Annotations[api.AnnotationRevisionFor] != "2" {
				return errors.New("not yet")
			}
			return nil
		})
		s.served("free", "v1.2.0")
		s.set("free", api.AnnotationSuspend, "")
		s.served("free", "v1.4.0")
		s.event("free", api.EventConfigResumed)
	})
	s.run("pruning", func(t *testing.T) {
		s.profile("osp-a-v1.2.0") // the record of a pool refers to it
		s.forget()
		s.gone(namespace, "osp-a-v1.2.0", &osm.OperatingSystemProfile{})
		s.profile("osp-a-v1.0.0") // pinned
	})
	s.run("a profile that leaves the repository", func(t *testing.T) {
		s.ready(s.git.push(map[string]string{"a.yaml": ""}))
		s.pool("new", "osp-a")
		s.event("new", api.EventProfileError, `profile "osp-a" was removed from ProfileSource "osps"`)
		before, _ := s.served("exact", "v1.0.0")
		s.set("exact", "example.com/anything", "new")
		if after, _ := s.served("exact", "v1.0.0"); after.UID != before.UID {
			t.Error("the document was made anew")
		}
	})
	s.run("the end of the source", func(t *testing.T) {
		s.forget()
		if err := s.client.Delete(t.Context(), s.profileSource()); err != nil {
			t.Fatal(err)
		}
		s.gone(namespace, "osps", &api.ProfileSource{})
		s.eventually("an event that names what is left", func() error {
			notes := s.notesIn(namespace, "osps", api.EventProfilesLeft)
			if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasSuffix(n, ": osp-a-v1.0.0, osp-a-v1.0.1, osp-a-v1.4.0") }) {
				return fmt.Errorf("events are %q", notes)
			}
			return nil
		})
		s.profile("osp-a-v1.0.0")
		s.served("free", "v1.4.0")
	})
}

// security.md 24: with the rights of deploy/ alone, profiles of another namespace are
// denied; with its Role and the flag they are served, and their sources are left to
// whoever keeps them.
func TestProfilesOfAnotherNamespace(t *testing.T) {
	s := newSystem(t)
	other := s.cluster.Namespace(t)
	s.applyYAML(strings.Replace(osp("osp-far", "v1.0.0", "echo far"), "name: osp-far", "name: osp-far\n  namespace: "+other, 1))
	s.apply(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "theirs", "namespace": other},
		"spec":     map[string]any{"git": map[string]any{"url": s.git.url}},
	})
	s.start()
	s.builtin("osp-ubuntu")
	s.pool("far", "osp-far", annotate(api.AnnotationOSPNamespace, other))
	s.event("far", api.EventProfileError, `may not take profiles from namespace "`+other+`"`, "--allow-cross-namespace-profiles="+other)
	if _, _, err := s.secrets("far"); !apierrors.IsNotFound(err) {
		t.Errorf("something was made for it: %v", err)
	}
	s.stop()

	manifests, err := os.ReadFile(repoPath("deploy/cross-namespace-profiles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range strings.Split(strings.ReplaceAll(string(manifests), "namespace: platform", "namespace: "+other), "\n---\n") {
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(manifest), &obj); err != nil {
			t.Fatal(err)
		}
		s.apply(obj)
	}
	s.start("--allow-cross-namespace-profiles", other)
	s.served("far", "v1.0.0")
	var osc osm.OperatingSystemConfig
	if err := s.get(namespace, "far-"+s.pools+"-config", &osc); err != nil || !strings.Contains(osc.Annotations[api.AnnotationRecord], `"object":"`+other+`/osp-far"`) {
		t.Errorf("the record is %s (err %v)", osc.Annotations[api.AnnotationRecord], err)
	}
	var theirs api.ProfileSource
	if err := s.get(other, "theirs", &theirs); err != nil || len(theirs.Finalizers) > 0 || len(theirs.Status.Conditions) > 0 {
		t.Errorf("somebody else's source was touched: %+v (err %v)", theirs, err)
	}
	if err := s.client.Delete(t.Context(), &theirs); err != nil {
		t.Fatal(err)
	}
}

// forget removes the records of what pools had, as --config-history-limit does in time.
// The controller is another one afterwards: it trusts for minutes that a record is there.
func (s *system) forget() {
	s.t.Helper()
	s.stop()
	defer s.start()
	s.noError(s.client.DeleteAllOf(s.t.Context(), &appsv1.ControllerRevision{}, client.InNamespace(namespace), client.HasLabels{api.LabelPool}))
}
