package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// What a cluster has becomes a repository, credentials of its pools aside, and following that
// repository changes nothing that nodes get.
func TestImport(t *testing.T) {
	s := newSystem(t)
	var object map[string]any
	if err := yaml.Unmarshal([]byte(osp("osp-a", "v1.0.0", "echo one")), &object); err != nil {
		t.Fatal(err)
	}
	object["metadata"].(map[string]any)["namespace"] = namespace
	s.apply(object)
	s.pool("web", "osp-a", func(md map[string]any) {
		template := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		template["providerSpec"].(map[string]any)["value"].(map[string]any)["cloudProviderSpec"] = map[string]any{"token": canary}
	})
	s.start()
	bootstrap, provisioning := s.served("web", "v1.0.0")

	dir := filepath.Join(t.TempDir(), "osps")
	status, out, errs := s.runs("import", "--kubeconfig", s.cluster.Kubeconfig, "--namespace", namespace, "--to", dir)
	if status != 0 || !strings.Contains(out, s.pools+"/web") {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(canary)) {
			t.Errorf("%s holds a credential (security.md 15): %s", path, around(string(b), canary))
		}
		if name, ok := strings.CutPrefix(path, filepath.Join(dir, "profiles")+"/"); ok {
			files[name] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	commit := s.git.push(files)
	s.source()
	s.ready(commit)
	s.eventually("the pool to follow the repository", func() error {
		nowBootstrap, nowProvisioning, err := s.secrets("web")
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
