package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// A release does not replace one that another user makes between its checks and its write.
func TestReleaseAtTheSameTime(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace(t), Name: "osps"}}
	ps.Spec.Builtin, ps.Spec.Rollout = &api.BuiltinSource{}, &api.Rollout{Gate: api.GateWaves}
	ps.Spec.Interval.Duration, ps.Spec.RetryInterval.Duration = time.Minute, time.Minute
	if err := cl.Create(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"profiles": []api.ProfileEntry{
		{Name: "osp-a", Version: "v1.2.0", Object: "osp-a-v1.2.0", Path: "a.yaml", Digest: "x", Versions: []string{"v1.2.0", "v1.1.0"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.Status().Patch(t.Context(), ps, client.RawPatch("application/merge-patch+json", status)); err != nil {
		t.Fatal(err)
	}
	// The other user writes before the first PATCH arrives.
	var other sync.Once
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			other.Do(func() {
				patch := `{"metadata":{"annotations":{"` + api.AnnotationRelease + `":"v1.1.0"}}}`
				if err := cl.Patch(r.Context(), ps.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
					t.Error(err)
				}
			})
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters:\n- {name: one, cluster: {server: \"" + server.URL + "\"}}\ncontexts:\n- {name: one, context: {cluster: one}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runs(t, "release", "osp-a@v1.2.0", "-n", ps.Namespace, "--kubeconfig", config)
	if got.status != exitFailure || !strings.Contains(got.stderr, "releases v1.1.0 already, which this replaces: end it with --remove first") {
		t.Errorf("it ended with %d and said %q", got.status, got.stderr)
	}
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(ps), ps); err != nil {
		t.Fatal(err)
	}
	if is := ps.Annotations[api.AnnotationRelease]; is != "v1.1.0" {
		t.Errorf("the release is %q", is)
	}
}
