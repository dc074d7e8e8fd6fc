package delivery

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// What Flux fetched reaches a pool with the rights of deploy/rbac.yaml, and the record
// of the pool says which artifact it was.
func TestFluxArtifact(t *testing.T) {
	s := newSystem(t)
	served := map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(served[r.URL.Path]) }))
	defer server.Close()
	if err := s.Cluster.Apply(t.Context(), e2e.RepoPath("pkg/reconcile/profilesource/testdata/flux/source.toolkit.fluxcd.io_gitrepositories.yaml")); err != nil {
		t.Fatal(err)
	}
	fluxClient := s.Cluster.Client(t)
	repository := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": map[string]any{"name": "osps", "namespace": e2e.Namespace},
		"spec": map[string]any{"url": "https://git.example.com/osps.git", "interval": "1m"},
	}}
	s.Apply(repository.Object)
	t.Cleanup(func() {
		s.NoError(fluxClient.DeleteAllOf(context.WithoutCancel(s.T.Context()), repository, client.InNamespace(e2e.Namespace)))
	})
	publish := func(revision, content string) {
		t.Helper()
		data := archiveOf(t, "profiles/a.yaml", content)
		path := fmt.Sprintf("/%x.tar.gz", sha256.Sum256(data))
		served[path] = data
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"artifact": map[string]any{
			"url": server.URL + path, "path": path[1:], "revision": revision, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(data)),
			"lastUpdateTime": "2026-01-01T00:00:00Z", "size": len(data),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := fluxClient.Status().Patch(t.Context(), repository.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	first, second := "main@sha1:"+strings.Repeat("1", 40), "main@sha1:"+strings.Repeat("2", 40)
	publish(first, e2e.OSP("osp-a", "v1.0.0", "echo one"))
	s.Source(func(spec map[string]any) {
		delete(spec, "git")
		spec["interval"] = "700h"
		spec["sourceRef"] = map[string]any{"kind": "GitRepository", "name": "osps"}
	})
	s.Start()
	s.WaitRejected(api.ReasonSourceInvalid, "--artifact-hosts") // the flag does not allow this server
	s.Stop()
	s.Start("--artifact-hosts", strings.TrimPrefix(server.URL, "http://"))
	s.Ready(first)
	s.Pool("pool-a", "osp-a")
	bootstrap, _ := s.Served("pool-a", "v1.0.0")
	if got := bootstrap.Annotations[api.AnnotationCommit]; got != first {
		t.Errorf("the Secret's commit is %q", got)
	}
	publish(second, e2e.OSP("osp-a", "v1.1.0", "echo two"))
	s.Ready(second)
	s.Served("pool-a", "v1.1.0")
}

func archiveOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
