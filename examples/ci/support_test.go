package ci_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// profileName is that of the generated repository.
const profileName = "osp-ubuntu-web"

// built is the folder of the program, for the PATH, after build was called.
var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// build builds the program once, and returns its folder.
func build(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"bash", "git", "curl", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIP: the recipes need %s, which is not here: %v", name, err)
		}
	}
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "osm-gitops"); built.err == nil {
			built.err = program.Controller(t.Context(), filepath.Join(built.dir, "osm-gitops"))
		}
	})
	if built.err != nil {
		t.Fatalf("building osm-gitops: %v", built.err)
	}
	return built.dir
}

// repository is what osm-gitops init makes.
type repository struct {
	t        *testing.T
	dir, bin string
}

func newRepository(t *testing.T, bin string) *repository {
	t.Helper()
	r := &repository{t: t, dir: filepath.Join(t.TempDir(), "osps"), bin: bin}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "osm-gitops"), "init", r.dir, "--git", "--profile", profileName)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// pullRequest commits a change to a branch of that name.
func (r *repository) pullRequest(version string) {
	r.t.Helper()
	r.git("switch", "--quiet", "--create", "change")
	r.edit(version)
	r.git("commit", "--quiet", "--all", "--message", "change")
}

// edit changes what a node gets, and the version if there is one.
func (r *repository) edit(version string) {
	r.t.Helper()
	path := "profiles/" + profileName + ".yaml"
	text := string(read(r.t, filepath.Join(r.dir, path)))
	for old, now := range map[string]string{"open a pull request.": "open one.", "version: v1.0.0": "version: " + version} {
		if !strings.Contains(text, old) {
			r.t.Fatalf("the profile has no %q:\n%s", old, text)
		}
		if now != "version: " {
			text = strings.Replace(text, old, now, 1)
		}
	}
	r.write(path, text)
}

func (r *repository) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, path), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	return gittest.Git(r.t, r.dir, args...)
}

// bash runs a script in the work tree, with the program on the PATH.
func (r *repository) bash(script, options, more string, env []string) (string, error) {
	r.t.Helper()
	args := []string{"--noprofile", "--norc", options}
	if more != "" {
		args = append(args, more)
	}
	cmd := exec.CommandContext(r.t.Context(), "bash", append(args, "-c", script)...)
	cmd.Dir = r.dir
	cmd.Env = append(append(os.Environ(), "PATH="+r.bin+string(filepath.ListSeparator)+os.Getenv("PATH")), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// server has the comments of one pull request, as GitHub's and GitLab's APIs have them:
// https://docs.github.com/rest/issues/comments and
// https://docs.gitlab.com/api/notes/#merge-requests.
type server struct {
	url, token string

	mu sync.Mutex
	heard
}

// heard is the content of the requests to a server.
type heard struct {
	comments        []comment
	created, edited int
}

// told returns the requests so far.
func (s *server) told() heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return heard{slices.Clone(s.comments), s.created, s.edited}
}

type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
	User struct {
		Type string `json:"type"`
	} `json:"user"`
}

func newServer(t *testing.T, list, one string) *server {
	t.Helper()
	s := &server{token: "canary-token"}
	serve := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+s.token && r.Header.Get("PRIVATE-TOKEN") != s.token {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		id := strings.TrimPrefix(r.URL.Path, one)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case r.Method == http.MethodGet && r.URL.Path == list:
			others := []comment{{ID: 1, Body: "looks good"}}
			s.answer(t, w, append(others, s.comments...))
		case r.Method == http.MethodPost && r.URL.Path == list:
			s.created++
			c := comment{ID: 41 + len(s.comments), Body: body(t, r)}
			c.User.Type = "Bot"
			s.comments = append(s.comments, c)
			w.WriteHeader(http.StatusCreated)
			s.answer(t, w, c)
		case (r.Method == http.MethodPatch || r.Method == http.MethodPut) && len(s.comments) > 0 && id == fmt.Sprint(s.comments[0].ID):
			s.edited++
			s.comments[0].Body = body(t, r)
			s.answer(t, w, s.comments[0])
		default:
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	}))
	t.Cleanup(serve.Close)
	s.url = serve.URL
	return s
}

func (s *server) answer(t *testing.T, w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

// body is the text of a comment, as JSON or as a form.
func body(t *testing.T, r *http.Request) string {
	if r.Header.Get("PRIVATE-TOKEN") != "" {
		return r.FormValue("body")
	}
	var c comment
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&c); err != nil {
		t.Error(err)
	}
	return c.Body
}
