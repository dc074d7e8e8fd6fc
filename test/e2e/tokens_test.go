package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The controller, with the rights of deploy/rbac.yaml and no others, gives each pool
// a token that fetches its own Secrets only. Sharing the getter's token instead, and
// going back, is a flag: the documents follow, the configuration stays, and what
// machines boot with meanwhile stays good.
func TestNodeTokens(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
	for _, pool := range []string{"pool-a", "pool-b"} {
		s.pool(pool, "osp-a")
		s.served(pool, "v1.0.0")
		s.eventually("its documents", func() error { return s.applied(pool) })
	}
	document := func(pool string) string { return pool + "-" + s.pools + "-bootstrap-config" }
	fetched := func(pool string) string { return pool + "-" + s.pools + "-provisioning-config" }
	bound := s.nodeTokens()
	a, b := bound[document("pool-a")], bound[document("pool-b")]
	if a == "" || b == "" || a == b {
		t.Fatalf("the documents of %q carry no tokens of their own", slices.Collect(maps.Keys(bound)))
	}
	s.machineGets(a, fetched("pool-a"), http.StatusOK)
	s.machineGets(b, fetched("pool-b"), http.StatusOK)
	s.machineGets(a, fetched("pool-b"), http.StatusForbidden)
	s.machineGets(a, document("pool-a"), http.StatusForbidden)
	s.machineGets(a, "", http.StatusForbidden)

	before := s.configVersions()
	for _, mode := range []string{"shared", "bound"} {
		s.stop()
		s.start("--node-token=" + mode)
		s.eventually("the documents to follow --node-token="+mode, func() error {
			now := s.nodeTokens()
			if shared := now[document("pool-a")] == now[document("pool-b")]; shared != (mode == "shared") || now[document("pool-a")] == a {
				return errors.New("they do not yet")
			}
			return nil
		})
		for _, token := range []string{a, s.nodeTokens()[document("pool-a")]} {
			s.machineGets(token, fetched("pool-a"), http.StatusOK)
		}
	}
	if after := s.configVersions(); !maps.Equal(before, after) {
		t.Errorf("configurations went from %v to %v", before, after)
	}
}

// configVersions are the configurations' versions.
func (s *system) configVersions() map[string]string {
	out := s.versions()
	maps.DeleteFunc(out, func(name, _ string) bool { return !strings.HasPrefix(name, "*v1alpha1.OperatingSystemConfig ") })
	return out
}

// machineGets waits until a machine with a token gets a status for a Secret, "" for
// the list of them, as it would: over HTTPS.
func (s *system) machineGets(token, secret string, want int) {
	s.t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(caOf(s.t, s.cluster))) {
		s.t.Fatal("the cluster has no CA")
	}
	machine := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	url := strings.TrimSuffix(s.cluster.Config.Host+"/api/v1/namespaces/"+api.NamespaceCloudInitSettings+"/secrets/"+secret, "/")
	s.eventually(fmt.Sprintf("a machine to get %d for %q", want, secret), func() error {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := machine.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		var body bytes.Buffer
		if _, err := body.ReadFrom(res.Body); err != nil {
			return err
		}
		if res.StatusCode != want {
			return fmt.Errorf("it gets %d", res.StatusCode)
		}
		return nil
	})
}

// nodeTokens are the tokens that the bootstrap documents carry, by document.
func (s *system) nodeTokens() map[string]string {
	s.t.Helper()
	var list corev1.SecretList
	if err := s.client.List(s.t.Context(), &list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, secret := range list.Items {
		if _, after, ok := strings.Cut(string(secret.Data[api.UserDataKey]), "Authorization: Bearer "); ok {
			out[secret.Name] = after[:strings.IndexAny(after, "'\n")]
		}
	}
	return out
}

// noAccess looks for what lets a pool's token read.
func (s *system) noAccess(pool string) error {
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		if err := s.client.List(s.t.Context(), list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
			return err
		}
		if err := apimeta.EachListItem(list, func(o runtime.Object) error {
			if obj := o.(client.Object); obj.GetAnnotations()[api.AnnotationPool] == s.pools+"/"+pool {
				return fmt.Errorf("%T %s is there", obj, obj.GetName())
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
