package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/gittestserver"
)

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
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull,
			"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ben", "GIT_COMMITTER_EMAIL=ben@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const profile = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
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
	url := g.HTTPAddress() + "/osps.git"
	git("init", "--quiet", "--bare", "--initial-branch=trunk", filepath.Join(g.Root(), "osps.git"))
	git("init", "--quiet", "--initial-branch=trunk")
	write("osp.yaml", profile)
	git("add", ".")
	git("commit", "--quiet", "--message=one")
	write("osp.yaml", strings.Replace(profile, "v1.0.0", "v1.1.0", 1))
	git("commit", "--quiet", "--all", "--message=two")
	git("push", "--quiet", filepath.Join(g.Root(), "osps.git"), "trunk")
	git("remote", "add", "origin", url)
	write("md.yaml", `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: workers, namespace: shop, annotations: {k8c.io/operating-system-profile: osp-small}}
spec: {template: {spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: hetzner, operatingSystem: ubuntu}}}}}
`)
	write("cluster.yaml", "settings: {}\n")
	t.Setenv("TMPDIR", t.TempDir())
	render := func(args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		args = append([]string{"render", "--machine-deployment", filepath.Join(dir, "md.yaml"), "--cluster", filepath.Join(dir, "cluster.yaml"), "-o", "bootstrap"}, args...)
		return run(t.Context(), args, strings.NewReader(""), &out, &errs), out.String(), errs.String()
	}
	insecure := []string{"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8,::1/128"}
	seen := map[string]bool{}
	for _, revision := range []string{"", "trunk~1"} {
		status, fetched, errs := render(append([]string{"--repo", url, "--revision", revision}, insecure...)...)
		if status != exitOK || errs != "" || !strings.Contains(fetched, url) {
			t.Fatalf("status %d: %s%s", status, fetched, errs)
		}
		if _, local, _ := render("--repo", dir, "--revision", revision); local != fetched {
			t.Errorf("at %q the clone gives\n%s\nthe server\n%s", revision, local, fetched)
		}
		seen[fetched] = true
	}
	if len(seen) != 2 {
		t.Error("two revisions give the same")
	}
	if status, _, errs := render("--repo", url, "--allow-insecure-git"); status != exitFailure || !strings.Contains(errs, "--git-allowed-cidrs") {
		t.Errorf("a loopback address was not refused: %d %s", status, errs)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind (err %v)", left, err)
	}
}
