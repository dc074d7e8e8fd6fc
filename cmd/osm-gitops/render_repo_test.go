package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/gittestserver"

	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/gittest/gitssh"
)

const smallProfile = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata: {name: osp-small}
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  supportedCloudProviders: [{name: hetzner}]
  bootstrapConfig:
    files:
    - path: /etc/from
      content: {inline: {data: "{{ .Provenance.Repository }} {{ .Provenance.Commit }} {{ .Provenance.ConfigDigest }}"}}
  provisioningConfig: {}
`

// clone is a work tree whose remote is a repository of a server.
type clone struct {
	t   *testing.T
	dir string
}

// newClone makes a repository of two commits in a server's folder, and a clone of it.
func newClone(t *testing.T, root, url string) *clone {
	t.Helper()
	c := &clone{t, t.TempDir()}
	c.git("init", "--quiet", "--bare", "--initial-branch=trunk", filepath.Join(root, "osps.git"))
	c.git("init", "--quiet", "--initial-branch=trunk")
	c.write("osp.yaml", smallProfile)
	c.git("add", ".")
	c.git("commit", "--quiet", "--message=one")
	c.write("osp.yaml", strings.Replace(smallProfile, "v1.0.0", "v1.1.0", 1))
	c.git("commit", "--quiet", "--all", "--message=two")
	c.git("push", "--quiet", filepath.Join(root, "osps.git"), "trunk")
	c.git("remote", "add", "origin", url)
	c.write("md.yaml", `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: workers, namespace: shop, annotations: {k8c.io/operating-system-profile: osp-small}}
spec: {template: {spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: hetzner, operatingSystem: ubuntu}}}}}
`)
	c.write("cluster.yaml", "settings: {}\n")
	return c
}

func (c *clone) git(args ...string) {
	c.t.Helper()
	gittest.Git(c.t, c.dir, args...)
}

func (c *clone) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *clone) render(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	args = append([]string{"render", "--machine-deployment", filepath.Join(c.dir, "md.yaml"), "--cluster", filepath.Join(c.dir, "cluster.yaml"), "-o", "bootstrap"}, args...)
	return run(c.t.Context(), append([]string{"osm-gitops"}, args...), strings.NewReader(""), &out, &errs), out.String(), errs.String()
}

// same wants what is read from a server and from a clone of it to be the same.
func (c *clone) same(url string, flags ...string) {
	c.t.Helper()
	c.t.Setenv("TMPDIR", c.t.TempDir())
	seen := map[string]bool{}
	for _, revision := range []string{"", "trunk~1"} {
		status, fetched, errs := c.render(append([]string{"--repo", url, "--revision", revision}, flags...)...)
		if status != exitOK || errs != "" || !strings.Contains(fetched, url) {
			c.t.Fatalf("status %d: %s%s", status, fetched, errs)
		}
		if _, local, _ := c.render("--repo", c.dir, "--revision", revision); local != fetched {
			c.t.Errorf("at %q the clone gives\n%s\nthe server\n%s", revision, local, fetched)
		}
		seen[fetched] = true
	}
	if len(seen) != 2 {
		c.t.Error("two revisions give the same")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		c.t.Errorf("%v is left behind (err %v)", left, err)
	}
}

const onLoopback = "127.0.0.0/8,::1/128"

// What is read from a server and from a clone of it is the same, to the byte.
func TestRenderFromAServer(t *testing.T) {
	g, err := gittestserver.NewTempGitServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(g.Root()) })
	if err := g.StartHTTP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.StopHTTP)
	url := g.HTTPAddress() + "/osps.git"
	c := newClone(t, g.Root(), url)
	c.same(url, "--allow-insecure-git", "--git-allowed-cidrs", onLoopback)
	if status, _, errs := c.render("--repo", url, "--allow-insecure-git"); status != exitFailure || !strings.Contains(errs, "--git-allowed-cidrs") {
		t.Errorf("a loopback address was not refused: %d %s", status, errs)
	}
}

// Over ssh it is so, too; and a server that known_hosts does not have learns nothing.
func TestRenderOverSSH(t *testing.T) {
	private, public, err := gitssh.Identity("")
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	g := gitssh.New(t, func(content string) error {
		if asked = true; content != strings.TrimSpace(public) {
			return errors.New("unknown")
		}
		return nil
	})
	url := g.URL + "/osps.git"
	c := newClone(t, g.Root, url)
	identity, line := c.write("key", private), g.KnownHosts()

	unknown := c.write("unknown", "git.example.com "+g.HostKey)
	flags := []string{"--git-allowed-cidrs", onLoopback, "--identity", identity}
	if status, _, errs := c.render(append(flags, "--repo", url, "--known-hosts", unknown)...); status != exitFailure || !strings.Contains(errs, "the host is unknown") || asked {
		t.Errorf("an unknown server: %d %s; it was shown a key: %v", status, errs, asked)
	}
	c.same(url, append(flags, "--known-hosts", c.write("known_hosts", line))...)
	home := t.TempDir()
	t.Setenv("HOME", home)
	if status, _, errs := c.render(append(flags, "--repo", url)...); status != exitFailure || !strings.Contains(errs, "--known-hosts: open "+home+"/.ssh/known_hosts") {
		t.Errorf("without known_hosts: %d %s", status, errs)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(home, ".ssh"), 0o700), os.WriteFile(filepath.Join(home, ".ssh", "known_hosts"), []byte(line), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.same(url, flags...)
}
