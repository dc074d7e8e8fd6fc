package running

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// The controller takes over what operating-system-manager made for a pool, with the rights of deploy/rbac.yaml:
// documents of another content are replaced, but not before the machine that boots from them has
// joined.
func TestTakeOver(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Pool("pool-a", "osp-a")
	md := s.MachineDeployment("pool-a")
	annotations := map[string]string{api.AnnotationRevisionFor: "1", api.AnnotationMDAnnotationsHash: strings.Repeat("0", 64), api.AnnotationOSPVersion: "v1.0.0"}
	name := "pool-a-" + s.Pools
	old := map[string]*corev1.Secret{}
	for _, stage := range []string{"bootstrap", "provisioning"} {
		immutable := true
		old[stage] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name + "-" + stage + "-config", Annotations: annotations},
			Type: corev1.SecretTypeOpaque, Immutable: &immutable, Data: map[string][]byte{api.UserDataKey: []byte("#cloud-config\nruncmd: [old]\n")}}
		s.NoError(s.Client.Create(t.Context(), old[stage]))
	}
	s.NoError(s.Client.Create(t.Context(), &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name + "-config", Annotations: annotations},
		Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{
			Name: "aws", Spec: &runtime.RawExtension{Raw: []byte(`{"secretAccessKey":"canary"}`)},
		}},
	}))
	owner := func(kind, name string, obj metav1.Object) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: machines.GroupVersion.String(), Kind: kind, Name: name, UID: obj.GetUID()}}
	}
	ms := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: "pool-a-1",
		Annotations: map[string]string{api.AnnotationMDRevision: "1"}, OwnerReferences: owner("MachineDeployment", md.Name, md)}}
	s.NoError(s.Client.Create(t.Context(), ms))
	booting := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: "pool-a-1-x", OwnerReferences: owner("MachineSet", ms.Name, ms)}}
	s.NoError(s.Client.Create(t.Context(), booting))

	s.Begin(first)
	s.Event("pool-a", api.EventWaiting, "machine pool-a-1-x is booting")
	for _, was := range old {
		var now corev1.Secret
		if s.NoError(s.Get(was.Namespace, was.Name, &now)); now.UID != was.UID {
			t.Errorf("%s was replaced while a machine boots", was.Name)
		}
	}
	booting.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "node"}
	s.NoError(s.Client.Status().Update(t.Context(), booting))
	s.Eventually("the documents to be replaced", func() error {
		for _, was := range old {
			var now corev1.Secret
			if err := s.Get(was.Namespace, was.Name, &now); err != nil {
				return err
			}
			if now.UID == was.UID || now.Immutable != nil || bytes.Contains(now.Data[api.UserDataKey], []byte("old")) {
				return fmt.Errorf("%s is the old one", now.Name)
			}
		}
		return nil
	})
	s.Event("pool-a", api.EventConfigCreated, `key "runcmd"`)
	s.Eventually("the configuration to be ours", func() error {
		var osc osm.OperatingSystemConfig
		if err := s.Get(e2e.Namespace, name+"-config", &osc); err != nil {
			return err
		}
		if osc.Spec.CloudProvider.Spec != nil || osc.Annotations[api.AnnotationRecord] == "" {
			return errors.New("it is the reference's")
		}
		return nil
	})
}
