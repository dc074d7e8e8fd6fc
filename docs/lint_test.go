package docs_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lintSession shows what is said of an example with a mistake that shows for some pools only.
func lintSession(t *testing.T, program string) string {
	t.Helper()
	const example = "examples/repository/profiles/osp-ubuntu-example.yaml"
	dir := t.TempDir()
	text := strings.Replace(string(read(t, filepath.Join("..", example))), "{{- range .ClusterDNSIPs }}", "{{- range .ClusterDNSIPs }}{{ if $.HTTPProxy }}{{ index $.ClusterDNSIPs 1 }}{{ end }}", 1)
	if err := os.WriteFile(filepath.Join(dir, "osp-ubuntu.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "lint", "--shellcheck=off", ".")
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("a profile with mistakes ended with %v\n%s", err, out.String())
	}
	return "```\n$ osm-gitops lint --shellcheck=off .\n" + out.String() + "```\n"
}
