package pools

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// node asks the API server for a path below its Secrets as a machine does: over
// HTTPS, with a token. It returns the status and the answer.
func node(t *testing.T, token, path string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces/"+api.NamespaceCloudInitSettings+"/secrets"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return asMachine(t, token, req)
}

// asMachine sends a request to the API server as a machine does. It returns the status and the
// answer.
func asMachine(t *testing.T, token string, req *http.Request) (int, []byte) {
	t.Helper()
	config := cluster.Shared(t).Config
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CAData) {
		t.Fatal("the cluster has no CA")
	}
	machine := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := machine.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body.Bytes()
}

// answers waits until a machine gets a status. The API server's authorizer and its
// cache of good tokens follow within moments.
func answers(t *testing.T, token, path string, want int) []byte {
	t.Helper()
	var body []byte
	testenv.Await(t, 30*time.Second, fmt.Sprintf("GET %s answers %d", path, want), func() error {
		var status int
		if status, body = node(t, token, path); status != want {
			return fmt.Errorf("it answers %d", status)
		}
		return nil
	})
	return body
}

// The token in a pool's documents can read what the pool's machines need, and no more: not the
// pool's other Secrets, not another pool's, no list. It is revoked with the pool. The test uses
// the RBAC of a real API server.
func TestBoundTokenReadsItsPoolOnly(t *testing.T) {
	a, b := newBoundFixture(t, "hetzner"), newBoundFixture(t, "edge")
	a.r.Settings.NodeHTTPProxy = "http://user:secret@proxy.example.com" // so that there is an inputs Secret
	a.reconcile()
	b.reconcile()
	own := func(f *fixture, name string) string { return "/" + f.secret(name).Name }
	for _, f := range []*fixture{a, b} {
		token := f.carried(stageBootstrap)
		if token == "getter" || token != f.carried(stageProvision) {
			t.Fatal("the two documents carry the getter's token, or two")
		}
		var got corev1.Secret
		if err := json.Unmarshal(answers(t, token, own(f, namesOf(f.pool).Provisioning), http.StatusOK), &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data[api.UserDataKey], f.secret(got.Name).Data[api.UserDataKey]) {
			t.Error("the machine gets another document")
		}
		answers(t, token, own(f, namesOf(f.pool).Kubeconfig), http.StatusOK)
	}
	for path, of := range map[string][]*fixture{
		"":                                   {a, b}, // list
		"?watch=true":                        {a, b},
		"/" + api.SecretGetterToken:          {a, b},
		own(a, namesOf(a.pool).Inputs):       {a, b},
		own(b, namesOf(b.pool).EdgeScript):   {a, b},
		own(a, namesOf(a.pool).Kubeconfig):   {b},
		own(b, namesOf(b.pool).Kubeconfig):   {a},
		own(a, namesOf(a.pool).Provisioning): {b},
		own(b, namesOf(b.pool).Provisioning): {a},
		own(a, namesOf(a.pool).Bootstrap):    {a, b},
		own(b, namesOf(b.pool).Bootstrap):    {a},
	} {
		for _, f := range of {
			if status, _ := node(t, f.carried(stageBootstrap), path); status != http.StatusForbidden {
				t.Errorf("a machine of provider %s gets %d for %q", map[*fixture]string{a: "hetzner", b: "edge"}[f], status, path)
			}
		}
	}
	// Machines of edge get their first document by the script.
	answers(t, b.carried(stageBootstrap), own(b, namesOf(b.pool).Bootstrap), http.StatusOK)
	if !strings.Contains(b.script(), b.carried(stageBootstrap)) {
		t.Error("the script carries another token")
	}

	token, path := a.carried(stageBootstrap), own(a, namesOf(a.pool).Kubeconfig)
	a.delete(a.pool)
	a.reconcile()
	if left, err := a.r.reader().listOwned(t.Context(), a.r.reader().live(), a.pool); err != nil || len(left) != 0 {
		t.Errorf("the pool left %v (err %v)", left, err)
	}
	answers(t, token, path, http.StatusUnauthorized)
}

// The token in a pool's documents can patch the BootReport of its pool, and nothing else: a
// compromised node fills the report of its own pool (security.md 46).
func TestBoundTokenReportsForItsPoolOnly(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	own := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(keyOf(f.pool))}}
	other := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-other-0123456789abcdef"}}
	const reports = "/apis/gitops.k8c.io/v1alpha1/namespaces/" + api.NamespaceCloudInitSettings + "/bootreports"
	entry := `{"machine":"m","stage":"Setup","outcome":"Failing","attempt":1,"config":"0123456789ab","bootID":"01234567-89ab-cdef-0123-456789abcdef"}`
	send := func(method, path, kind, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		status, _ := asMachine(t, f.carried(stageBootstrap), req)
		return status
	}
	applied := func(name string) int {
		t.Helper()
		return send(http.MethodPatch, reports+"/"+name+"?fieldManager=m&force=true", "application/apply-patch+yaml",
			`{"apiVersion":"gitops.k8c.io/v1alpha1","kind":"BootReport","metadata":{"name":"`+name+`"},"spec":{"machines":[`+entry+`]}}`)
	}
	if status := applied(own.Name); status != http.StatusForbidden && status != http.StatusNotFound {
		t.Errorf("a machine creates the report: %d", status)
	}
	f.ensure(own)
	f.ensure(other)
	testenv.Await(t, 30*time.Second, "the machine can write its report", func() error {
		if status := applied(own.Name); status != http.StatusOK {
			return fmt.Errorf("the API server answers %d", status)
		}
		return nil
	})
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil || len(own.Spec.Machines) != 1 || own.Spec.Machines[0].Machine != "m" {
		t.Errorf("reported %+v, error %v", own.Spec, err)
	}
	if status := applied(other.Name); status != http.StatusForbidden {
		t.Errorf("the report of another pool: %d", status)
	}
	const merge = "application/merge-patch+json"
	for name, c := range map[string]struct{ method, path, kind, body string }{
		"read":                  {http.MethodGet, reports + "/" + own.Name, "", ""},
		"list":                  {http.MethodGet, reports, "", ""},
		"delete":                {http.MethodDelete, reports + "/" + own.Name, "", ""},
		"the status":            {http.MethodPatch, reports + "/" + own.Name + "/status", merge, `{"status":{"machines":[]}}`},
		"the Role":              {http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/namespaces/" + api.NamespaceCloudInitSettings + "/roles/" + own.Name, merge, `{"rules":[]}`},
		"a Secret":              {http.MethodPatch, "/api/v1/namespaces/" + api.NamespaceCloudInitSettings + "/secrets/" + namesOf(f.pool).Provisioning, merge, `{"data":{}}`},
		"the MachineDeployment": {http.MethodPatch, "/apis/cluster.k8s.io/v1alpha1/namespaces/" + f.pool.Namespace + "/machinedeployments/" + f.pool.Name, merge, `{"spec":{"paused":true}}`},
	} {
		if status := send(c.method, c.path, c.kind, c.body); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status := send(http.MethodPatch, reports+"/"+own.Name+"?fieldManager=m&force=true", "application/apply-patch+yaml",
		`{"apiVersion":"gitops.k8c.io/v1alpha1","kind":"BootReport","metadata":{"name":"`+own.Name+`"},"spec":{"machines":[`+entry+`,`+entry+`]}}`); status == http.StatusOK {
		t.Error("a machine reports a stage twice")
	}
	f.delete(other)
}

// earlierPermissions is a client of a controller whose permissions are of a release that knew no
// BootReports: the API server refuses Roles with more permissions than their creator has.
func earlierPermissions(f *fixture) client.Client {
	f.t.Helper()
	here := metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "earlier"}
	for _, obj := range []client.Object{
		&rbacv1.Role{ObjectMeta: here, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets", "serviceaccounts"}, Verbs: []string{"get", "create", "update", "patch", "delete"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"get", "create", "patch", "delete"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"bind"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: here, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: here.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: here.Name}},
		},
	} {
		f.ensure(obj)
	}
	config := rest.CopyConfig(cluster.Shared(f.t).Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: here.Name, Groups: []string{"system:authenticated"}}
	limited, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		f.t.Fatal(err)
	}
	return limited
}

// roleAs writes Roles with the permissions of another user.
type roleAs struct {
	client.Client
	limited client.Client
	sent    *int
}

func (c roleAs) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if _, ok := obj.(*rbacv1.Role); ok {
		*c.sent++
		return c.limited.Create(ctx, obj, opts...)
	}
	return c.Client.Create(ctx, obj, opts...)
}

func (c roleAs) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if obj.GetObjectKind().GroupVersionKind().Kind == "Role" {
		*c.sent++
		return c.limited.Patch(ctx, obj, patch, opts...)
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// Permissions of an earlier release do not stop pools: they get Roles as that release made them,
// and after the first no further request for each.
func TestEarlierPermissionsServePools(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	full := f.r.Worker.Client
	limited := earlierPermissions(f)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(keyOf(f.pool))}}
	rules := func() int {
		t.Helper()
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		return len(role.Rules)
	}
	// The API server's authorizer follows within moments.
	probe := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "probe"}}
	testenv.Await(t, 30*time.Second, "the earlier permissions are in force", func() error {
		return limited.Create(t.Context(), probe.DeepCopy(), client.DryRunAll)
	})
	sent := 0
	f.r.Worker.Client = roleAs{full, limited, &sent}
	f.reconcile()
	if got := rules(); got != 1 || sent != 2 {
		t.Errorf("the Role has %d rules after %d requests", got, sent)
	}
	answers(t, f.carried(stageBootstrap), "/"+namesOf(f.pool).Provisioning, http.StatusOK)
	f.patch(role.DeepCopy(), `{"rules":null}`)
	f.reconcile()
	if got := rules(); got != 1 || sent != 3 {
		t.Errorf("restored, the Role has %d rules after %d requests", got, sent)
	}
	f.reconcile()
	if sent != 3 {
		t.Errorf("at rest %d requests were sent", sent)
	}

	// With the permissions of this release each Role gets the rule after a while, once.
	f.r.Worker.Client = full
	f.reconcile()
	if got := rules(); got != 1 {
		t.Errorf("at once after the upgrade the Role has %d rules", got)
	}
	f.clock.Step(10 * time.Minute)
	f.reconcile()
	if got := rules(); got != 2 {
		t.Errorf("after the upgrade the Role has %d rules", got)
	}
	// A Role that has the rule retains it if the permissions become fewer.
	f.restart()
	f.r.Worker.Client = roleAs{full, limited, &sent}
	f.reconcile()
	if got := rules(); got != 2 || sent != 3 {
		t.Errorf("with fewer permissions again, the Role has %d rules after %d requests", got, sent)
	}
}

// The objects that let a pool's token read are restored after any change to them.
func TestAccessIsPutBack(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	meta := metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(keyOf(f.pool))}
	account, role, binding := &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}
	path := "/" + namesOf(f.pool).Provisioning
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
				if lineage.PoolOf(obj) != poolKey(f.pool) || obj.GetAnnotations()[api.AnnotationPoolUID] != string(f.pool.UID) {
					t.Errorf("%T has annotations %v", obj, obj.GetAnnotations())
				}
			}
			if rule := role.Rules[0]; len(role.Rules) != 2 || !slices.Equal(rule.Verbs, []string{"get"}) || len(rule.ResourceNames) != 2 {
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
	answers(t, now, "/"+namesOf(f.pool).Kubeconfig, http.StatusOK)
	answers(t, before, "/"+namesOf(f.pool).Kubeconfig, http.StatusUnauthorized)
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

// The cache preserves what package access compares, also if an object is transformed twice.
func TestCacheTransformOfAccess(t *testing.T) {
	annotations := map[string]string{api.AnnotationPool: "ns/pool", "example.com/long": strings.Repeat("x", 1000)}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: annotations, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}}},
	}
	for range 2 {
		kept, err := DigestSecretsAndTrim(role)
		if err != nil || kept.(*rbacv1.Role) != role || len(role.Rules) != 1 || role.Labels != nil || role.ManagedFields != nil || len(role.Annotations) != 1 || lineage.PoolOf(role) != "ns/pool" {
			t.Errorf("the cache keeps %+v (err %v)", role, err)
		}
	}
}
