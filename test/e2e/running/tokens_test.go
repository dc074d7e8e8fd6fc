package running

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

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// The controller, with the rights of deploy/rbac.yaml and no others, gives each pool
// a token that fetches its own Secrets only. Sharing the getter's token instead, and
// going back, is a flag: the documents follow, the configuration stays, and what
// machines boot with meanwhile stays good.
func TestNodeTokens(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
	for _, pool := range []string{"pool-a", "pool-b"} {
		s.Pool(pool, "osp-a")
		s.Served(pool, "v1.0.0")
		s.Eventually("its documents", func() error { return s.Applied(pool) })
	}
	document := func(pool string) string { return pool + "-" + s.Pools + "-bootstrap-config" }
	fetched := func(pool string) string { return pool + "-" + s.Pools + "-provisioning-config" }
	bound := s.NodeTokens()
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
		s.Stop()
		s.Start("--node-token=" + mode)
		s.Eventually("the documents to follow --node-token="+mode, func() error {
			now := s.NodeTokens()
			if shared := now[document("pool-a")] == now[document("pool-b")]; shared != (mode == "shared") || now[document("pool-a")] == a {
				return errors.New("they do not yet")
			}
			return nil
		})
		for _, token := range []string{a, s.NodeTokens()[document("pool-a")]} {
			s.machineGets(token, fetched("pool-a"), http.StatusOK)
		}
	}
	if after := s.configVersions(); !maps.Equal(before, after) {
		t.Errorf("configurations went from %v to %v", before, after)
	}
}

// configVersions are the configurations' versions.
func (s *system) configVersions() map[string]string {
	out := s.Versions()
	maps.DeleteFunc(out, func(name, _ string) bool { return !strings.HasPrefix(name, "*v1alpha1.OperatingSystemConfig ") })
	return out
}

// machineGets waits until a machine with a token gets a status for a Secret, "" for
// the list of them, as it would: over HTTPS.
func (s *system) machineGets(token, secret string, want int) {
	s.T.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(e2e.CaOf(s.T, s.Cluster))) {
		s.T.Fatal("the cluster has no CA")
	}
	machine := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	url := strings.TrimSuffix(s.Cluster.Config.Host+"/api/v1/namespaces/"+api.NamespaceCloudInitSettings+"/secrets/"+secret, "/")
	s.Eventually(fmt.Sprintf("a machine to get %d for %q", want, secret), func() error {
		req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, url, nil)
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
