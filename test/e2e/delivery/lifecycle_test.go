package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A push reaches the pools that use the profile, without an event on their MachineDeployments,
// and no other pools. At no time is a Secret missing, a new bootstrap document paired with an
// old provisioning document, or a credential in an OperatingSystemConfig.
func TestPushRotates(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one"), "b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo one")})
	s.Begin(first)
	s.Pool("pool-a", "osp-a")
	s.Pool("pool-b", "osp-b")
	s.Served("pool-a", "v1.0.0")
	bBefore, _ := s.Served("pool-b", "v1.0.0")
	s.Eventually("the configuration to be reported as applied", func() error {
		return s.Applied("pool-a")
	})
	mdBefore := s.MachineDeployment("pool-a").ResourceVersion
	seen := s.WatchUserData("pool-a")

	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	bootstrap, provisioning := s.Served("pool-a", "v1.1.0")

	for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
		for key, want := range map[string]string{
			api.AnnotationCommit: second, api.AnnotationChange: second, api.AnnotationSelectedBy: second,
			api.AnnotationPath: "profiles/a.yaml", api.AnnotationRepository: s.Git.URL,
			api.AnnotationProfile: "osp-a", api.AnnotationVersion: "v1.1.0", api.AnnotationRevisionFor: "1",
			api.AnnotationPool: s.Pools + "/pool-a",
		} {
			if got := secret.Annotations[key]; got != want {
				t.Errorf("%s: annotation %s is %q, want %q", secret.Name, key, got, want)
			}
		}
		if len(secret.Annotations[api.AnnotationMDAnnotationsHash]) != 64 {
			t.Errorf("%s: no hash of the pool's annotations", secret.Name)
		}
	}
	if !bytes.Contains(provisioning.Data[api.UserDataKey], []byte("echo two")) {
		t.Error("the provisioning document has old content")
	}
	if after := s.MachineDeployment("pool-a").ResourceVersion; after != mdBefore {
		t.Error("the MachineDeployment was written to")
	}
	if bAfter, _, err := s.Secrets("pool-b"); err != nil || bAfter.ResourceVersion != bBefore.ResourceVersion {
		t.Errorf("pool-b was touched (err %v)", err)
	}
	s.Event("pool-a", api.EventConfigRotated, `from profile "osp-a" v1.0.0 at commit `+first[:12]+` to "osp-a" v1.1.0 at commit `+second[:12])
	seen.Check(t)
	s.checkConfig("pool-a", "v1.1.0", second)
}

// checkConfig checks what an OperatingSystemConfig says of itself.
func (s *system) checkConfig(pool, version, commit string) {
	s.T.Helper()
	var osc osm.OperatingSystemConfig
	if err := s.Get(e2e.Namespace, pool+"-"+s.Pools+"-config", &osc); err != nil {
		s.T.Fatal(err)
	}
	if got := osc.Annotations[api.AnnotationOSPVersion]; got != "gitops/"+version {
		s.T.Errorf("annotation %s is %q: the reference must not reuse this object", api.AnnotationOSPVersion, got)
	}
	var rec render.Record
	if err := json.Unmarshal([]byte(osc.Annotations[api.AnnotationRecord]), &rec); err != nil {
		s.T.Fatal(err)
	}
	if rec.Profile != "osp-a" || rec.Version != version || rec.Commit != commit || rec.Object != "osp-a-"+version || rec.SelectedBy != commit {
		s.T.Errorf("record is %+v", rec)
	}
	if rec.Digests.Input != osc.Annotations[api.AnnotationInputDigest] {
		s.T.Error("record and annotation name different input digests")
	}
	raw, err := json.Marshal(osc)
	if err != nil {
		s.T.Fatal(err)
	}
	for what, secret := range s.Credentials() {
		if bytes.Contains(raw, []byte(secret)) {
			s.T.Errorf("the OperatingSystemConfig holds %s", what)
		}
	}
	var settings corev1.ConfigMap
	digest := rec.SettingsDigest[strings.LastIndex(rec.SettingsDigest, ":")+1:]
	if err := s.Get(e2e.Namespace, "osm-gitops-settings-"+digest[:12], &settings); err != nil {
		s.T.Errorf("the settings of the record: %v", err)
	}
}

// A deleted pool leaves nothing behind, nor does one whose annotation is removed.
func TestPoolRemoved(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	for name, remove := range map[string]func(md *machines.MachineDeployment) error{
		"deleted": func(md *machines.MachineDeployment) error { return s.Client.Delete(t.Context(), md) },
		"given up": func(md *machines.MachineDeployment) error {
			return s.Client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationOSP)))
		},
	} {
		pool := "pool-" + strconv.Itoa(len(name))
		s.Run("a pool is "+name, func(t *testing.T) {
			s.Pool(pool, "osp-a")
			s.Served(pool, "v1.0.0")
			s.Eventually("its documents", func() error { return s.Applied(pool) })
			s.NoError(remove(s.MachineDeployment(pool)))
			key := pool + "-" + s.Pools
			s.Gone(api.NamespaceCloudInitSettings, key+"-bootstrap-config", &corev1.Secret{})
			s.Gone(api.NamespaceCloudInitSettings, key+"-provisioning-config", &corev1.Secret{})
			s.Gone(api.NamespaceCloudInitSettings, s.Pools+"-"+pool+"-kubelet-bootstrap-config", &corev1.Secret{})
			s.Gone(e2e.Namespace, key+"-config", &osm.OperatingSystemConfig{})
			s.Eventually("the identity of its machines to be gone", func() error { return s.NoAccess(pool) })
			s.Eventually("the token to be gone", func() error {
				for _, token := range s.Tokens() {
					if token.Annotations[api.AnnotationPool] == s.Pools+"/"+pool {
						return errors.New("it is there")
					}
				}
				return nil
			})
			s.Eventually("the finalizer to be gone", func() error {
				var md machines.MachineDeployment
				if err := client.IgnoreNotFound(s.Get(s.Pools, pool, &md)); err != nil {
					return err
				}
				if len(md.Finalizers) > 0 {
					return fmt.Errorf("finalizers are %v", md.Finalizers)
				}
				return nil
			})
		})
	}
}

// A pool that cannot be decoded gets an event with the reason and does not affect other pools.
func TestMalformedPool(t *testing.T) {
	s := newSystem(t)
	s.Pool("bad", "osp-a", func(md map[string]any) {
		spec := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		spec["versions"] = map[string]any{"kubelet": 1.35}
	})
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	s.Pool("good", "osp-a")
	s.Served("good", "v1.0.0")
	s.Event("bad", api.EventProfileError, "spec.template.spec.versions.kubelet", "expected string, found number", "put it in quotes")
	s.Pool("bad", "osp-a")
	s.Served("bad", "v1.0.0")
}

// Another folder of the same repository is another source.
func TestPathChanges(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one"), "team/b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo one")}))
	s.PatchSource(`{"spec":{"path":"profiles/team"}}`)
	want := map[string]string{"osp-a": "v1.0.0 removed", "osp-b": "v1.0.0"}
	s.Eventually("the other folder's profiles", func() error {
		if got := s.Inventory(); !maps.Equal(got, want) {
			return fmt.Errorf("inventory is %v, want %v", got, want)
		}
		return nil
	})
	s.PatchSource(`{"spec":{"path":"profiles"}}`)
	want["osp-a"] = "v1.0.0"
	s.Eventually("both folders' profiles", func() error {
		if got := s.Inventory(); !maps.Equal(got, want) {
			return fmt.Errorf("inventory is %v, want %v", got, want)
		}
		return nil
	})
}

// Pools that are deleted immediately after their creation leave no objects.
func TestShortLivedPools(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	const pools = 30
	for i := range pools {
		name := "brief-" + strconv.Itoa(i)
		s.Pool(name, "osp-a")
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // a moment more each time
		s.NoError(client.IgnoreNotFound(s.Client.Delete(t.Context(), &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: name}})))
	}
	s.Eventually("everything to be gone", func() error {
		for name := range s.Versions() {
			if strings.Contains(name, "brief-") {
				return fmt.Errorf("%s is left", name)
			}
		}
		if tokens := s.Tokens(); len(tokens) > 0 {
			return fmt.Errorf("%d tokens are left", len(tokens))
		}
		return nil
	})
}
