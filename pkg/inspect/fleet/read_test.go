package fleet_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// Lists are read in pages, and kinds without permission are reported.
func TestRead(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	text, err := os.ReadFile("../../../test/api/testdata/provenance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 5 {
		var np api.NodeProvenance
		if err := yaml.Unmarshal(text, &np); err != nil {
			t.Fatal(err)
		}
		np.Name = fmt.Sprintf("%s-%d.0b6f3c1a", ns, i)
		np.Spec.Node.Name = fmt.Sprintf("%s-%d", ns, i)
		if err := cl.Create(t.Context(), &np); err != nil {
			t.Fatal(err)
		}
		want = append(want, np.Spec.Node.Name)
	}
	for size := range int64(4) {
		o, err := (&fleet.Reader{Management: cl, Worker: cl, Namespace: ns, PageSize: size}).Read(t.Context())
		var got []string
		for _, n := range o.Nodes {
			if strings.HasPrefix(n.Node, ns) {
				got = append(got, n.Node)
			}
		}
		if err != nil || len(o.ReadErrors) != 0 || !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q, not read %q, %v", size, got, o.ReadErrors, err)
		}
	}

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}}
	if err := cl.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	var token authenticationv1.TokenRequest
	if err := cl.SubResource("token").Create(t.Context(), account, &token); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{api.GroupVersion.Group}, Resources: []string{"nodeprovenances"}, Verbs: []string{"list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "reader"}},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := cl.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = token.Status.Token
	person, err := client.New(cfg, client.Options{Scheme: cl.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	o, err := (&fleet.Reader{Management: person, Worker: person, Namespace: ns, PageSize: 2}).Read(t.Context())
	if err != nil || len(o.Nodes) < len(want) || len(o.ReadErrors) != 5 || !strings.HasPrefix(o.ReadErrors[0], "ProfileSources cannot be listed") {
		t.Errorf("with fewer rights %d nodes are read, not read are %q (err %v)", len(o.Nodes), o.ReadErrors, err)
	}
}
