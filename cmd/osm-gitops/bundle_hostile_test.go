package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/runner"
)

// Download lists from hostile profiles contain no control characters and no commands to a
// runner, in any output of bundle (security.md 39, 45).
func TestBundleOfHostileText(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	dir := t.TempDir()
	hostile := `https://a.example/\e]0;x\a\e[31m\u009b31m\u202e##[error]x.tgz`
	profile := strings.NewReplacer("/etc/from", "/opt/a.sh\n      permissions: 755", "{{ .Provenance.Repository }} {{ .Provenance.Commit }} {{ .Provenance.ConfigDigest }}",
		`#!/bin/bash\ncurl -fsSLo /opt/x '`+hostile+`'\napt-get install -y 'a\e[31m##[error]b'\n`).Replace(smallProfile)
	if profile == smallProfile {
		t.Fatal("the profile is not hostile")
	}
	for name, text := range map[string]string{"p.yaml": profile, "md.yaml": `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: workers, namespace: shop, annotations: {k8c.io/operating-system-profile: osp-small}}
spec: {template: {spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: hetzner, operatingSystem: ubuntu}}}}}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, output := range []string{"table", "mirrors", "json"} {
		var stdout, stderr bytes.Buffer
		run(t.Context(), []string{"osm-gitops", "bundle", "--machine-deployments", filepath.Join(dir, "md.yaml"), "--profile", filepath.Join(dir, "p.yaml"), "-o", output}, strings.NewReader(""), &stdout, &stderr)
		if !strings.Contains(stdout.String(), "a.example") {
			t.Fatalf("%s does not list it: %s%s", output, stdout.String(), stderr.String())
		}
		if commands := runner.Commands(stdout.String()); len(commands) > 0 {
			t.Errorf("%s: commands %q", output, commands)
		}
		if strings.ContainsAny(stdout.String(), "\x1b\a\u009b\u202e") {
			t.Errorf("%s has what does something to a terminal: %q", output, stdout.String())
		}
	}
}
