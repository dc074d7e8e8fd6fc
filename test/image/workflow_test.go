package image_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A third-party action is pinned to the commit that was reviewed, and every script can be parsed.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are the workflows %q (%v)", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkWorkflow(t, file) })
	}
}

// ownCode matches a command that runs a script or program of this repository or of a module.
var ownCode = regexp.MustCompile(`(?m)\b(make|go)\s|\bhack/`)

// building matches a command that runs the code of this repository and of its modules. Pinned tools
// that only push and sign are not part of it.
var building = regexp.MustCompile(`(?m)\b(make|go (build|test|generate))\b`)

func checkWorkflow(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Steps       []struct{ Name, Uses, Run string }
		}
	}
	if err := yaml.Unmarshal(b, &workflow); err != nil {
		t.Fatal(err)
	}
	commit := regexp.MustCompile(`@[0-9a-f]{40}$`)
	scripts := 0
	for name, job := range workflow.Jobs {
		permissions := job.Permissions
		if permissions == nil {
			permissions = workflow.Permissions
		}
		writes := permissions == nil || slices.Contains(slices.Collect(maps.Values(permissions)), "write")
		if permissions["contents"] == "write" && permissions["id-token"] == "write" {
			t.Errorf("job %s can sign, and write to the repository: one of the two is enough for a job", name)
		}
		for _, step := range job.Steps {
			if permissions["contents"] == "write" && ownCode.MatchString(step.Run) {
				t.Errorf("step %q of job %s can write to the repository, and runs code of it or of a module", step.Name, name)
			}
			if writes && building.MatchString(step.Run) {
				t.Errorf("job %s builds or tests in step %q, and has permissions to write: %v", name, step.Name, permissions)
			}
			if writes && strings.Contains(step.Run, "tar ") && !strings.Contains(step.Run, `cd "$RUNNER_TEMP/`) {
				t.Errorf("step %q of job %s unpacks over the checkout, whose scripts run later with permissions to write", step.Name, name)
			}
			if step.Uses != "" && !commit.MatchString(step.Uses) {
				t.Errorf("step %q uses %s: name a commit", step.Name, step.Uses)
			}
			if strings.Contains(step.Run, "${{") {
				t.Errorf("step %q has an expression in its script, which whoever names a tag could write: give it as an environment variable", step.Name)
			}
			if step.Run == "" {
				continue
			}
			if regexp.MustCompile(`digest[^\n]*:\$\{?GITHUB_REF_NAME`).MatchString(step.Run) {
				t.Errorf("step %q asks which digest a tag has: sign what the push says it pushed", step.Name)
			}
			if regexp.MustCompile(`(-c|--config|--header|--password)[ =][^\n]*(TOKEN|Authorization)`).MatchString(step.Run) {
				t.Errorf("step %q gives a program a credential as an argument, which every process of the machine may read", step.Name)
			}
			scripts++
			cmd := exec.CommandContext(t.Context(), "bash", "-n")
			cmd.Stdin = strings.NewReader(step.Run)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("step %q: %v\n%s", step.Name, err, out)
			}
		}
	}
	if scripts < 2 {
		t.Errorf("there are %d scripts only", scripts)
	}
}

// The cosign that signs is the one whose library go.sum has the sum of.
func TestCosign(t *testing.T) {
	b, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`github\.com/sigstore/cosign/v3/cmd/cosign@(\S+)`).FindSubmatch(b)
	module, err := os.ReadFile("../../tools/image/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if used == nil || !bytes.Contains(module, []byte("github.com/sigstore/cosign/v3 "+string(used[1])+" ")) {
		t.Errorf("the workflow signs with %q, which is not in tools/image/go.mod", used)
	}
}
