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
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fluxcd/pkg/gittestserver"
)

// gitServer is a real Git server behind a proxy that can go wrong.
type gitServer struct {
	t    *testing.T
	url  string
	work string
	mode atomic.Value // what the proxy does: "", "500", "down", "password"
	seen atomic.Int64 // requests
}

func newGitServer(t *testing.T) *gitServer {
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
	g := &gitServer{t: t, work: t.TempDir()}
	g.mode.Store("")
	proxy := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.seen.Add(1)
		switch mode := g.mode.Load().(string); mode {
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
	g.url = front.URL + "/osps.git"
	g.run("init", "-q", "--initial-branch=main", ".")
	g.run("config", "user.name", "Ada Example")
	g.run("config", "user.email", "ada@example.com")
	g.run("remote", "add", "origin", server.HTTPAddress()+"/osps.git")
	return g
}

func (g *gitServer) run(args ...string) string {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), "git", args...)
	cmd.Dir = g.work
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// push commits files below profiles/, "" being a removal, and returns the commit.
func (g *gitServer) push(files map[string]string) string {
	g.t.Helper()
	g.write(files)
	g.run("push", "-q", "origin", "main")
	return g.run("rev-parse", "HEAD")
}

// write commits without pushing.
func (g *gitServer) write(files map[string]string) {
	g.t.Helper()
	for name, content := range files {
		path := filepath.Join(g.work, "profiles", name)
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
	g.run("add", "-A")
	g.run("commit", "-q", "-m", "change")
}

// osp is a small profile.
func osp(name, version, script string) string {
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
            #!/bin/sh
            curl -sf -H 'Authorization: Bearer {{ .Token }}' {{ .ServerURL }}/{{ .SecretName }}
  provisioningConfig:
    files:
    - path: /opt/bin/setup
      permissions: 755
      content:
        inline:
          data: |
            #!/bin/sh
            %s
    - path: /etc/kubernetes/bootstrap-kubelet.conf
      permissions: 600
      content:
        inline:
          data: |
            {{ .BootstrapKubeconfig }}
`, name, version, script)
}
