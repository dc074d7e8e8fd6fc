package operators

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// security.md 15: what the controller publishes of pools and what a person writes of them
// is the same, holds no credential, and is all that diff needs.
func TestSnapshot(t *testing.T) {
	s := newSystem(t)
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one; curl -fsSLO https://example.com/one")})
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two; curl -fsSLO https://example.com/two")})
	s.Source()
	s.Pool("web", "osp-a", e2e.Annotate(api.AnnotationRollout, api.RolloutReplace), func(md map[string]any) {
		e2e.Annotate("kubectl.kubernetes.io/last-applied-configuration", e2e.Canary)(md)
		template := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		value := template["providerSpec"].(map[string]any)["value"].(map[string]any)
		value["cloudProviderSpec"] = map[string]any{"token": e2e.Canary}
		value["overwriteCloudConfig"] = e2e.Canary
		value["sshPublicKeys"] = []any{"ssh-ed25519 " + e2e.Canary}
	})
	s.Pool("old", "osp-a", e2e.Annotate(api.AnnotationVersionPin, "v1.0.0"))
	s.Start("--publish-snapshot", "--node-http-proxy", "http://"+e2e.Canary+":"+e2e.Canary+"@proxy.example.com")
	s.Ready(commit)
	s.Served("web", "v1.1.0")
	s.Served("old", "v1.0.0")

	dir := t.TempDir()
	file, published := filepath.Join(dir, "snapshot.json.gz"), filepath.Join(dir, "published.yaml")
	s.Eventually("the snapshot to be published", func() error {
		if status, _, errs := s.Runs("snapshot", "--kubeconfig", s.Cluster.Kubeconfig, "-o", file); status != 0 {
			return fmt.Errorf("status %d: %s", status, errs)
		}
		written, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var cm corev1.ConfigMap
		if err := s.Get(e2e.Namespace, impact.ConfigMapName, &cm); err != nil {
			return err
		}
		have := cm.BinaryData["snapshot.json.gz"]
		if string(have) != string(written) {
			return errors.New("it is not what osm-gitops snapshot writes")
		}
		if len(cm.Annotations) > 0 {
			t.Errorf("it has annotations: %v", cm.Annotations)
		}
		text := "apiVersion: v1\nkind: ConfigMap\nbinaryData:\n  snapshot.json.gz: " + base64.StdEncoding.EncodeToString(have) + "\n"
		return os.WriteFile(published, []byte(text), 0o600)
	})
	_, text, errs := s.Runs("snapshot", "--kubeconfig", s.Cluster.Kubeconfig)
	if strings.Contains(text+errs, e2e.Canary) || !strings.Contains(text, `"name": "web"`) || strings.Contains(text, "last-applied") {
		t.Errorf("the snapshot tells a credential, or not of the pool: %s\n%s", text, errs)
	}

	fromCluster := []string{"--kubeconfig", s.Cluster.Kubeconfig}
	for _, from := range [][]string{{"--snapshot", file}, {"--snapshot", published}, fromCluster} {
		status, out, errs := s.Runs(append([]string{"diff", "HEAD~1", "HEAD", "--repo", s.Git.Work}, from...)...)
		for _, want := range []string{"osp-a v1.0.0 -> v1.1.0: 1 pool", s.Pools + "/web: running machines are replaced, has osp-a v1.1.0 now", "+echo two", "requests v1.0.0: it retains osp-a v1.0.0: " + s.Pools + "/old"} {
			if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%v: status %d, lacks %q:\n%s%s", from, status, want, out, errs)
			}
		}
		if strings.Contains(out+errs, e2e.Canary) {
			t.Errorf("%v: a credential is printed: %s", from, e2e.Around(out+errs, e2e.Canary))
		}
		status, out, errs = s.Runs(append([]string{"bundle", "-o", "mirrors", "--repo", s.Git.Work}, from...)...)
		if status != 0 || !e2e.ContainsAll(out, []string{"https://example.com/one\n", "https://example.com/two\n"}) || strings.Contains(out+errs, e2e.Canary) {
			t.Errorf("%v: status %d, it lists:\n%s%s", from, status, out, errs)
		}
	}
}
