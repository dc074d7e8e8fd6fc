package ci_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what GitHub reads of github.yaml, as far as commands need it.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Env         map[string]string `json:"env"`
	Jobs        map[string]job    `json:"jobs"`
}

// pipeline is what GitLab reads of gitlab-ci.yml.
type pipeline struct {
	Variables map[string]string `json:"variables"`
	Profiles  struct {
		Variables    map[string]string `json:"variables"`
		BeforeScript []string          `json:"before_script"`
		Script       []string          `json:"script"`
	} `json:"profiles"`
}

type job struct {
	Permissions map[string]string `json:"permissions"`
	Steps       []step            `json:"steps"`
}

type step struct {
	Name string            `json:"name"`
	Uses string            `json:"uses"`
	Run  string            `json:"run"`
	Env  map[string]string `json:"env"`
}

// TestGitHubAsksForLittle: the permissions of the workflow, and that no other party decides what it
// runs.
func TestGitHubAsksForLittle(t *testing.T) {
	var w workflow
	decode(t, "github.yaml", &w)
	if len(w.Permissions) != 0 {
		t.Errorf("every job has the permissions %v", w.Permissions)
	}
	if want, got := "map[contents:read pull-requests:write]", fmt.Sprint(w.Jobs["profiles"].Permissions); got != want {
		t.Errorf("the job may %s, want %s", got, want)
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	for _, s := range w.Jobs["profiles"].Steps {
		if s.Uses != "" && !pinned.MatchString(s.Uses) {
			t.Errorf("%s uses %q, which its owner may change", s.Name, s.Uses)
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s puts an expression into a script: what a stranger wrote would be run", s.Name)
		}
	}
	// Without a version nothing is installed.
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", w.Jobs["profiles"].Steps[1].Run)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RUNNER_TEMP=" + t.TempDir(), "OSM_GITOPS_VERSION="}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "set it at the top of this workflow") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}

// TestGitHub runs the workflow's commands for a pull request that is fine and for one
// that forgot the version, against a server with GitHub's API for comments.
func TestGitHub(t *testing.T) {
	var w workflow
	decode(t, "github.yaml", &w)
	bin := build(t)
	for _, c := range pullRequests {
		t.Run(c.name, func(t *testing.T) {
			r := newRepository(t, bin)
			r.pullRequest(c.version)
			r.git("switch", "--quiet", "--detach", "main")
			r.git("merge", "--quiet", "--no-ff", "--message", "merged", "change")
			server := newServer(t, "/repos/platform/osps/issues/7/comments", "/repos/platform/osps/issues/comments/")
			for range 2 { // a second push edits the comment
				runSteps(t, r, c, w, server)
			}
			if told := server.told(); told.created != 1 || told.edited != 1 {
				t.Errorf("%d comments were made and %d edited, want one of each", told.created, told.edited)
			}
		})
	}
}

// runSteps runs the commands of the job once, as a runner of GitHub does.
func runSteps(t *testing.T, r *repository, c pullRequest, w workflow, s *server) {
	t.Helper()
	values := map[string]string{"github.event.pull_request.number": "7", "github.token": s.token}
	temp := t.TempDir()
	linted := false
	for _, step := range w.Jobs["profiles"].Steps {
		if step.Run == "" {
			continue
		}
		env := []string{"RUNNER_TEMP=" + temp, "GITHUB_PATH=" + filepath.Join(temp, "path"), "GITHUB_STEP_SUMMARY=" + filepath.Join(temp, "summary"),
			"GITHUB_API_URL=" + s.url, "GITHUB_REPOSITORY=platform/osps", "TMPDIR=" + temp}
		env = append(append(env, assignments(t, w.Env, values)...), assignments(t, step.Env, values)...)
		out, err := r.bash(step.Run, "-eo", "pipefail", env)
		switch {
		case step.Name == "Lint":
			linted = true
			checkLint(t, c, out, err)
		case step.Name == "Diff" && c.refused: // it says the same
		case err != nil:
			t.Fatalf("%s: %v\n%s", step.Name, err, out)
		}
		if strings.Contains(out, s.token) {
			t.Errorf("the log of %s has the token:\n%s", step.Name, out)
		}
	}
	if !linted {
		t.Error("no step is called Lint")
	}
	checkComment(t, c, s, read(t, filepath.Join(temp, "summary")))
	left, err := filepath.Glob(filepath.Join(temp, "tmp.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the step leaves %q behind, with the token (%v)", left, err)
	}
}

// TestGitLab runs the commands of the job for the same merge requests.
func TestGitLab(t *testing.T) {
	var p pipeline
	decode(t, "gitlab-ci.yml", &p)
	bin := build(t)
	// GitLab runs both lists as one script, which ends at the first failing line.
	script := strings.Join(append(p.Profiles.BeforeScript, p.Profiles.Script...), "\n")
	for _, c := range pullRequests {
		t.Run(c.name, func(t *testing.T) {
			r := newRepository(t, bin)
			base := r.git("rev-parse", "HEAD")
			r.pullRequest(c.version)
			server := newServer(t, "/projects/3/merge_requests/7/notes", "/projects/3/merge_requests/7/notes/")
			env := append(assignments(t, p.Variables, nil), assignments(t, p.Profiles.Variables, nil)...)
			env = append(env, "CI_API_V4_URL="+server.url, "CI_PROJECT_ID=3", "CI_MERGE_REQUEST_IID=7", "CI_MERGE_REQUEST_DIFF_BASE_SHA="+base, "TMPDIR="+t.TempDir())
			for _, token := range []string{"", server.token, server.token} {
				out, err := r.bash(script, "-eo", "pipefail", append(env, "OSM_GITOPS_COMMENT_TOKEN="+token))
				checkLint(t, c, out+string(read(t, filepath.Join(r.dir, "lint.xml"))), err)
				if token != "" {
					checkComment(t, c, server, read(t, filepath.Join(r.dir, "diff.md")))
				} else if len(server.told().comments) > 0 {
					t.Error("without a token there is a comment")
				}
				if strings.Contains(out, server.token) {
					t.Errorf("the log has the token:\n%s", out)
				}
			}
			if told := server.told(); told.created != 1 || told.edited != 1 {
				t.Errorf("%d comments were made and %d edited, want one of each", told.created, told.edited)
			}
		})
	}
}

// TestHooks runs the hook of Git and that of pre-commit before a commit.
func TestHooks(t *testing.T) {
	var config struct {
		Repos []struct {
			Hooks []struct {
				Entry string `json:"entry"`
				Files string `json:"files"`
			} `json:"hooks"`
		} `json:"repos"`
	}
	decode(t, "pre-commit-config.yaml", &config)
	hook := config.Repos[0].Hooks[0]
	files, err := regexp.Compile(hook.Files)
	if err != nil || !files.MatchString("profiles/"+profileName+".yaml") || !files.MatchString(".osm-gitops.yaml") || files.MatchString("README.md") {
		t.Errorf("it looks at %s: %v", hook.Files, err)
	}
	var offered []struct {
		Entry string   `json:"entry"`
		Args  []string `json:"args"`
		Files string   `json:"files"`
	}
	decode(t, "../../.pre-commit-hooks.yaml", &offered)
	if got := strings.Join(append([]string{offered[0].Entry}, offered[0].Args...), " "); got != hook.Entry || offered[0].Files != hook.Files {
		t.Errorf("the hook that this repository offers runs %q for %s, the example %q for %s", got, offered[0].Files, hook.Entry, hook.Files)
	}
	bin := build(t)
	for name, script := range map[string]string{"pre-commit": string(read(t, "pre-commit")), "pre-commit-config.yaml": hook.Entry} {
		for _, c := range pullRequests {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				r := newRepository(t, bin)
				r.edit(c.version)
				r.git("add", ".")
				out, err := r.bash(script, "-e", "", nil)
				checkLint(t, c, out, err)
			})
		}
	}
	t.Run("a commit without profiles is none of its business", func(t *testing.T) {
		r := newRepository(t, bin)
		r.edit("") // not added
		r.write("NOTES.md", "x")
		r.git("add", "NOTES.md")
		if out, err := r.bash(string(read(t, "pre-commit")), "-e", "", nil); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

type pullRequest struct {
	name, version string
	refused       bool
}

// pullRequests change a file of a profile, with and without a new version.
var pullRequests = []pullRequest{
	{"a change with a new version", "v1.0.1", false},
	{"a change that forgot the version", "", true},
}

func checkLint(t *testing.T, c pullRequest, out string, err error) {
	t.Helper()
	if (err != nil) != c.refused {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
	var exit *exec.ExitError
	if c.refused && (!errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "profiles/"+profileName+".yaml") || !strings.Contains(out, "version")) {
		t.Errorf("it does not say where the version is missing: %v\n%s", err, out)
	}
}

func checkComment(t *testing.T, c pullRequest, s *server, want []byte) {
	t.Helper()
	comments := s.told().comments
	if len(comments) != 1 {
		t.Fatalf("%d comments, want one", len(comments))
	}
	body := comments[0].Body
	if strings.TrimSpace(body) != strings.TrimSpace(string(want)) {
		t.Errorf("the comment is not the diff:\n%s\n---\n%s", body, want)
	}
	parts := []string{"<!-- osm-gitops diff -->", "kube-system/example", "/etc/motd"}
	if c.refused {
		parts = []string{"<!-- osm-gitops diff -->", "profiles/" + profileName + ".yaml"}
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("the comment has no %q:\n%s", part, body)
		}
	}
	if strings.Contains(body, s.token) {
		t.Error("the comment has the token")
	}
}

// assignments are variables as a shell's environment, expressions filled in.
func assignments(t *testing.T, env, values map[string]string) []string {
	t.Helper()
	expression := regexp.MustCompile(`\$\{\{ *([a-z._]+) *\}\}`)
	var out []string
	for name, value := range env {
		value = expression.ReplaceAllStringFunc(value, func(e string) string {
			known, ok := values[expression.FindStringSubmatch(e)[1]]
			if !ok {
				t.Errorf("%s has the value of %s, which this test does not know", name, e)
			}
			return known
		})
		out = append(out, name+"="+value)
	}
	return out
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, path), into); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
