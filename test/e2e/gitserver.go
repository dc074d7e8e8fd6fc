package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fluxcd/pkg/gittestserver"

	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// GitServer is a real Git server behind a proxy that can go wrong.
type GitServer struct {
	t    *testing.T
	URL  string
	Work string
	Mode atomic.Value // what the proxy does: "", "500", "down", "password"
	Seen atomic.Int64 // requests
}

func NewGitServer(t *testing.T) *GitServer {
	t.Helper()
	server, err := gittestserver.NewTempGitServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(server.Root()) })
	server.AutoCreate()
	if err := server.StartHTTP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.StopHTTP)
	behind, err := url.Parse(server.HTTPAddress())
	if err != nil {
		t.Fatal(err)
	}
	g := &GitServer{t: t, Work: t.TempDir()}
	g.Mode.Store("")
	proxy := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Seen.Add(1)
		switch mode := g.Mode.Load().(string); mode {
		case "500":
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		case "down":
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
			return
		case "password":
			if user, password, _ := r.BasicAuth(); user != "reader" || password != "right" {
				w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
		}
		// The server closes a request's body when the response begins, and a proxy
		// that is still reading it then cuts its connection to the other side.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	g.URL = front.URL + "/osps.git"
	g.Run("init", "-q", "--initial-branch=main", ".")
	g.Run("remote", "add", "origin", server.HTTPAddress()+"/osps.git")
	return g
}

func (g *GitServer) Run(args ...string) string {
	g.t.Helper()
	return gittest.Run(g.t, gittest.By(gittest.Command(g.t.Context(), g.Work, args...), "Ada Example", "ada@example.com"))
}

// Push commits files below profiles/, "" being a removal, and returns the commit.
func (g *GitServer) Push(files map[string]string) string {
	g.t.Helper()
	g.Write(files)
	g.Run("push", "-q", "origin", "main")
	return g.Run("rev-parse", "HEAD")
}

// Write commits without pushing.
func (g *GitServer) Write(files map[string]string) {
	g.t.Helper()
	for name, content := range files {
		path := filepath.Join(g.Work, "profiles", name)
		if content == "" {
			if err := os.Remove(path); err != nil {
				g.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			g.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
	g.Run("add", "-A")
	g.Run("commit", "-q", "-m", "change")
}

// OSP is a small profile, whose provisioning runs a script.
func OSP(name, version, script string) string {
	return testenv.Profile(name, version, "#!/bin/sh", "#!/bin/sh\n            "+script)
}

// Merge commits a change of an author on a branch, merges it, and returns the merge.
func (g *GitServer) Merge(files map[string]string, message, author string) string {
	g.t.Helper()
	g.Run("checkout", "-q", "-b", "feature")
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(g.Work, "profiles", name), []byte(content), 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
	g.Run("commit", "-q", "-a", "-m", message, "--author", author)
	g.Run("checkout", "-q", "main")
	g.Run("merge", "-q", "--no-ff", "-m", "merge it", "feature")
	g.Run("push", "-q", "origin", "main")
	return g.Run("rev-parse", "HEAD")
}

// Revert takes a merge back.
func (g *GitServer) Revert(merge string) string {
	g.t.Helper()
	g.Run("revert", "--no-edit", "-m", "1", merge)
	g.Run("push", "-q", "origin", "main")
	return g.Run("rev-parse", "HEAD")
}

// Signer makes an SSH key. The file is for git to sign with, the line as
// allowed_signers has it.
func Signer(t *testing.T, principal string) (file, line string) {
	t.Helper()
	private, public := NewIdentity(t, "")
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(private), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".pub", []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, principal + " " + public
}

// SignedBy signs every commit from now on; "" signs none.
func (g *GitServer) SignedBy(key string) {
	g.t.Helper()
	g.Run("config", "gpg.format", "ssh")
	g.Run("config", "user.signingkey", key)
	g.Run("config", "commit.gpgsign", fmt.Sprint(key != ""))
}

// Trust makes lines of allowed_signers the public keys of the source.
func (s *System) Trust(lines ...string) {
	s.T.Helper()
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "signers", "namespace": Namespace},
		"stringData": map[string]any{"allowed_signers": strings.Join(lines, "\n")},
	})
}

// GitSpec adds to spec.git.
func GitSpec(key string, value any) func(spec map[string]any) {
	return func(spec map[string]any) { spec["git"].(map[string]any)[key] = value }
}
