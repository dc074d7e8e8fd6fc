package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// Repository is a Git repository with a link that points to a checkout of its newest commit, in the
// layout of git-sync.
type Repository struct {
	// Dir is the folder that the controller can read: its --directory-root.
	Dir    string
	pushes int
}

// NewRepository makes an empty one below a folder, which must not exist.
func NewRepository(ctx context.Context, dir string) (*Repository, error) {
	r := &Repository{Dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	_, err := r.git(ctx, "init", "--quiet", "--initial-branch=main", r.work())
	return r, err
}

func (r *Repository) work() string { return filepath.Join(r.Dir, "work") }

// Current is the link to the newest commit's files: the path of a ProfileSource's
// directory.
func (r *Repository) Current() string { return filepath.Join(r.Dir, "current") }

// Push commits files, by name, and lets the link point to the new commit, which it
// returns.
func (r *Repository) Push(ctx context.Context, files map[string]string) (commit string, err error) {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.work(), name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	r.pushes++
	clone := filepath.Join(r.Dir, fmt.Sprintf("clone-%d", r.pushes))
	for _, args := range [][]string{
		{"-C", r.work(), "add", "."},
		{"-C", r.work(), "commit", "--quiet", "--allow-empty", fmt.Sprintf("--message=push %d", r.pushes)},
		{"clone", "--quiet", r.work(), clone},
	} {
		if _, err := r.git(ctx, args...); err != nil {
			return "", err
		}
	}
	next := filepath.Join(r.Dir, "next")
	if err := os.Symlink(clone, next); err != nil {
		return "", err
	}
	if commit, err = r.git(ctx, "-C", clone, "rev-parse", "HEAD"); err != nil {
		return "", err
	}
	return commit, os.Rename(next, r.Current())
}

func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	out, err := gittest.Output(gittest.Command(ctx, r.Dir, args...))
	return strings.TrimSpace(out), err
}

// Profile is a small profile. Its bootstrap script begins with some lines, and then fetches the
// provisioning document, whose script has others. Lines after a first are indented as in the profile.
func Profile(name, version, bootstrap, provisioning string) string {
	return fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: %s
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: %s
  supportedCloudProviders:
  - name: aws
  - name: hetzner
  bootstrapConfig:
    files:
    - path: /opt/bin/bootstrap
      permissions: 755
      content:
        inline:
          data: |
            %s
            curl -sf -H 'Authorization: Bearer {{ .Token }}' {{ .ServerURL }}/{{ .SecretName }}
  provisioningConfig:
    files:
    - path: /opt/bin/setup
      permissions: 755
      content:
        inline:
          data: |
            %s
    - path: /etc/kubernetes/bootstrap-kubelet.conf
      permissions: 600
      content:
        inline:
          data: |
            {{ .BootstrapKubeconfig }}
`, name, version, bootstrap, provisioning)
}
