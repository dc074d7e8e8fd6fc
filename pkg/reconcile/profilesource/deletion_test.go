package profilesource

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// weak returns a client that has every permission except to delete profiles.
func (f *following) weak() client.Client {
	f.t.Helper()
	const name = "weak"
	f.do(f.client.Create(f.t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: name},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{api.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{osm.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "create"}},
			{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"list"}},
		},
	}))
	f.do(f.client.Create(f.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}))
	config := rest.CopyConfig(cluster.Shared(f.t).Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	scheme, err := cluster.Scheme()
	f.do(err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	f.do(err)
	// The authorizer of the API server applies the role after a moment.
	testenv.Await(f.t, 10*time.Second, "the role is in force", func() error {
		return c.List(f.t.Context(), &api.ProfileSourceList{}, client.InNamespace(f.ps.Namespace))
	})
	return c
}

// Without the permission to delete, objects remain. One event reports it, and neither the
// reconciliation nor the deletion of the source is blocked.
func TestWithoutTheRightToDelete(t *testing.T) {
	f := newFollowing(t, nil)
	f.applied("main@sha1:" + f.commit("", "v1.0.0", "one"))
	f.applied("main@sha1:" + f.commit("", "v1.1.0", "two"))
	f.change(func(spec *api.ProfileSourceSpec) { spec.HistoryLimit = new(int32) })
	weak := f.weak()
	f.r.Client, f.r.Live = weak, weak
	f.told()
	head := "main@sha1:" + f.commit("", "v1.2.0", "three")
	f.applied(head)
	f.toldOf("Warning WriteRefused", "deleting OperatingSystemProfile "+f.ps.Namespace+"/osp-a-v1.0.0", "forbidden")
	f.applied(head)
	if said := f.told(); said != "" {
		t.Errorf("it was told twice: %s", said)
	}
	f.wantObjects("nothing may be deleted", "v1.0.0", "v1.1.0", "v1.2.0")

	f.do(f.client.Delete(t.Context(), f.ps))
	key := client.ObjectKeyFromObject(f.ps)
	_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	f.do(err)
	if err := f.client.Get(t.Context(), key, &api.ProfileSource{}); !apierrors.IsNotFound(err) {
		t.Errorf("the source is held: %v", err)
	}
	if said := f.told(); !strings.Contains(said, "3 versions are left") {
		t.Errorf("told was %q", said)
	}
}
