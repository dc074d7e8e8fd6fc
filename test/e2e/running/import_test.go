package running

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// The profiles of a cluster become a repository, without the credentials of its pools, and
// following that repository changes nothing that nodes receive.
func TestImport(t *testing.T) {
	s := newSystem(t)
	var object map[string]any
	if err := yaml.Unmarshal([]byte(e2e.OSP("osp-a", "v1.0.0", "echo one")), &object); err != nil {
		t.Fatal(err)
	}
	object["metadata"].(map[string]any)["namespace"] = e2e.Namespace
	s.Apply(object)
	s.Pool("web", "osp-a", func(md map[string]any) {
		template := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		template["providerSpec"].(map[string]any)["value"].(map[string]any)["cloudProviderSpec"] = map[string]any{"token": e2e.Canary}
	})
	s.Start()
	bootstrap, provisioning := s.Served("web", "v1.0.0")

	dir := filepath.Join(t.TempDir(), "osps")
	status, out, errs := s.Runs("import", "--kubeconfig", s.Cluster.Kubeconfig, "--namespace", e2e.Namespace, "--to", dir)
	if status != 0 || !strings.Contains(out, s.Pools+"/web") {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(e2e.Canary)) {
			t.Errorf("%s holds a credential (security.md 15): %s", path, e2e.Around(string(b), e2e.Canary))
		}
		if name, ok := strings.CutPrefix(path, filepath.Join(dir, "profiles")+"/"); ok {
			files[name] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	commit := s.Git.Push(files)
	s.Source()
	s.Ready(commit)
	s.Eventually("the pool to follow the repository", func() error {
		nowBootstrap, nowProvisioning, err := s.Secrets("web")
		if err != nil {
			return err
		}
		if got := nowBootstrap.Annotations[api.AnnotationCommit]; got != commit {
			return fmt.Errorf("it carries the commit %q", got)
		}
		if !bytes.Equal(nowBootstrap.Data[api.UserDataKey], bootstrap.Data[api.UserDataKey]) {
			t.Error("the bootstrap document is another")
		}
		if !bytes.Equal(nowProvisioning.Data[api.UserDataKey], provisioning.Data[api.UserDataKey]) {
			t.Error("the provisioning document is another")
		}
		return nil
	})
}
