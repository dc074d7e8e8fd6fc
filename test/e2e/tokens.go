package e2e

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// Lease applies one that another holds.
func (s *System) Lease(name string) {
	s.T.Helper()
	s.Apply(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name, "namespace": Namespace},
		"spec": map[string]any{"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": MicroTime(), "renewTime": MicroTime()},
	})
}

func (s *System) DeleteLease(name string) {
	s.T.Helper()
	s.NoError(s.Client.Delete(s.T.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}))
}

// NodeTokens are the tokens that the bootstrap documents carry, by document.
func (s *System) NodeTokens() map[string]string {
	s.T.Helper()
	var list corev1.SecretList
	if err := s.Client.List(s.T.Context(), &list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
		s.T.Fatal(err)
	}
	out := map[string]string{}
	for _, secret := range list.Items {
		if _, after, ok := strings.Cut(string(secret.Data[api.UserDataKey]), "Authorization: Bearer "); ok {
			out[secret.Name] = after[:strings.IndexAny(after, "'\n")]
		}
	}
	return out
}

// NoAccess looks for what lets a pool's token read.
func (s *System) NoAccess(pool string) error {
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		if err := s.Client.List(s.T.Context(), list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
			return err
		}
		if err := apimeta.EachListItem(list, func(o runtime.Object) error {
			if obj := o.(client.Object); obj.GetAnnotations()[api.AnnotationPool] == s.Pools+"/"+pool {
				return fmt.Errorf("%T %s exists", obj, obj.GetName())
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

const (
	MainLease   = "operating-system-manager"
	WorkerLease = "operating-system-manager-worker-manager"
)

// TokenEnds has a pool's bootstrap token end soon, as when time passes.
func (s *System) TokenEnds(pool string, in time.Duration) {
	s.T.Helper()
	token := s.TokenOf(pool)
	token.Data["expiration"] = []byte(time.Now().Add(in).UTC().Format(time.RFC3339))
	s.NoError(s.Client.Update(s.T.Context(), token))
}

func (s *System) TokenOf(pool string) *corev1.Secret {
	s.T.Helper()
	var list corev1.SecretList
	if err := s.Client.List(s.T.Context(), &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{api.LabelTokenPool: s.Pools + "-" + pool}); err != nil {
		s.T.Fatal(err)
	}
	if len(list.Items) != 1 {
		s.T.Fatalf("pool %s has %d tokens", pool, len(list.Items))
	}
	return &list.Items[0]
}
