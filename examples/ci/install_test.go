package ci_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The generated CI installs what make binaries builds and the release workflow attaches, and nothing
// that differs from its checksum.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("osm-gitops"); err == nil {
		t.Skip("osm-gitops is installed on this machine, and the recipes would use it")
	}
	dir := t.TempDir()
	released := filepath.Join(dir, "v1.2.3")
	makes := exec.CommandContext(t.Context(), "make", "binaries", "VERSION=v1.2.3", "RELEASE="+released)
	if os.Getenv("OSM_SOAK") != "1" { // every package is compiled again for each other machine
		makes.Args = append(makes.Args, "MACHINES=linux/"+runtime.GOARCH)
	}
	makes.Dir = "../.."
	if out, err := makes.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	var github workflow
	decode(t, "github.yaml", &github)
	var gitlab pipeline
	decode(t, "gitlab-ci.yml", &gitlab)
	scripts := map[string]string{
		"GitHub": github.Jobs["profiles"].Steps[1].Run + "\nPATH=$(cat \"$GITHUB_PATH\"):$PATH\nosm-gitops version",
		"GitLab": gitlab.Profiles.BeforeScript[0] + "\nosm-gitops version",
	}
	install := func(t *testing.T, script string) (string, error) {
		temp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", script)
		cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "TMPDIR="+temp, "GITHUB_PATH="+filepath.Join(temp, "path"), "OSM_GITOPS_VERSION=v1.2.3", "OSM_GITOPS_RELEASES="+server.URL)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for host, script := range scripts {
		if out, err := install(t, script); err != nil || !strings.Contains(out, "osm-gitops v1.2.3\n") {
			t.Errorf("%s: %v\n%s", host, err, out)
		}
	}
	sums := filepath.Join(released, "checksums.txt")
	for text, says := range map[string]string{
		strings.Repeat("0", 64) + "  osm-gitops-linux-" + runtime.GOARCH + "\n": "did NOT match",
		strings.Repeat("0", 64) + "  osm-gitops-plan9\n":                        "no file was verified",
	} {
		if err := os.WriteFile(sums, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for host, script := range scripts {
			if out, err := install(t, script); err == nil || !strings.Contains(out, says) || strings.Contains(out, "osm-gitops v1.2.3\n") {
				t.Errorf("%s installs what has another checksum: %v\n%s", host, err, out)
			}
		}
	}
}
