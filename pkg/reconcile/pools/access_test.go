package pools

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// What lets a pool's token read comes back as it was, whatever is done to it.
func TestAccessIsPutBack(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	meta := metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: accessName(f.pool)}
	account, role, binding := &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}
	path := "/" + userDataName(f.pool, stageProvision)
	for name, spoil := range map[string]func(){
		"the Role is widened": func() {
			f.patch(role.DeepCopy(), `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get","list"]}]}`)
		},
		"the Role is emptied":    func() { f.patch(role.DeepCopy(), `{"rules":null}`) },
		"the Role is deleted":    func() { f.delete(role.DeepCopy()) },
		"the binding is deleted": func() { f.delete(binding.DeepCopy()) },
		"somebody else is bound": func() {
			f.patch(binding.DeepCopy(), `{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"eve"}]}`)
		},
		"another Role is bound": func() {
			f.delete(binding.DeepCopy())
			f.ensure(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}})
		},
		"the account forgets whose it is": func() {
			f.patch(account.DeepCopy(), `{"metadata":{"annotations":null},"automountServiceAccountToken":true}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.carried(stageBootstrap)
			spoil()
			f.reconcile()
			if now := f.carried(stageBootstrap); now != before {
				t.Error("the token was replaced")
			}
			for _, obj := range []client.Object{account, role, binding} {
				if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
					t.Fatal(err)
				}
				if ownerOf(obj) != poolKey(f.pool) || obj.GetAnnotations()[api.AnnotationPoolUID] != string(f.pool.UID) {
					t.Errorf("%T has annotations %v", obj, obj.GetAnnotations())
				}
			}
			if rule := role.Rules[0]; len(role.Rules) != 1 || !slices.Equal(rule.Verbs, []string{"get"}) || len(rule.ResourceNames) != 2 {
				t.Errorf("the rules are %+v", role.Rules)
			}
			if s := binding.Subjects; len(s) != 1 || s[0].Name != meta.Name || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != meta.Name {
				t.Errorf("bound are %+v to %+v", s, binding.RoleRef)
			}
			if mount := account.AutomountServiceAccountToken; mount == nil || *mount {
				t.Error("pods get the account's token")
			}
			answers(t, before, path, http.StatusOK)
		})
	}
	t.Run("the account is deleted", func(t *testing.T) {
		before := f.carried(stageBootstrap)
		f.delete(account)
		f.reconcile()
		now := f.carried(stageBootstrap)
		if now == before || now != f.carried(stageProvision) {
			t.Error("the documents carry a token of the account that was deleted")
		}
		answers(t, now, path, http.StatusOK)
	})
}

// A pool that is made again under its old name trusts no token of the one before.
func TestAccessOfAPoolMadeAgain(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	before := f.carried(stageBootstrap)
	f.patch(f.pool.DeepCopy(), `{"metadata":{"finalizers":null}}`)
	f.delete(f.pool)
	f.pool = &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.pool.Namespace, Name: f.pool.Name, Annotations: f.pool.Annotations},
		Spec:       f.pool.Spec,
	}
	f.ensure(f.pool)
	f.reconcile()
	f.reconcile()
	now := f.carried(stageBootstrap)
	if now == before {
		t.Fatal("the documents carry the old token")
	}
	answers(t, now, "/"+kubeconfigName(f.pool), http.StatusOK)
	answers(t, before, "/"+kubeconfigName(f.pool), http.StatusUnauthorized)
}

// A pool whose profile cannot be had gets no account.
func TestNoAccessWithoutAProfile(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.patch(f.pool.DeepCopy(), `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-nowhere"}}}`)
	f.reconcile()
	if got := f.hasAccess(); len(got) != 0 {
		t.Errorf("there are %q", got)
	}
}

// The cache keeps what decideAccess compares, whoever hands it in, twice.
func TestCacheTransformOfAccess(t *testing.T) {
	annotations := map[string]string{api.AnnotationPool: "ns/pool", "example.com/long": strings.Repeat("x", 1000)}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: annotations, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}}},
	}
	for range 2 {
		kept, err := CacheTransform(role)
		if err != nil || kept.(*rbacv1.Role) != role || len(role.Rules) != 1 || role.Labels != nil || role.ManagedFields != nil || len(role.Annotations) != 1 || ownerOf(role) != "ns/pool" {
			t.Errorf("the cache keeps %+v (err %v)", role, err)
		}
	}
}
