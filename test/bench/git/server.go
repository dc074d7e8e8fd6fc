package main

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// server is git http-backend on loopback. It counts what it is asked.
type server struct {
	*httptest.Server
	refRequests atomic.Int64 // requests for references: one per poll of the remote
	packs       atomic.Int64
}

// serve serves the bare repositories of a folder.
func serve(dir string) (*server, error) {
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
	}
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			s.refRequests.Add(1)
		} else {
			s.packs.Add(1)
		}
		backend.ServeHTTP(w, r)
	}))
	return s, nil
}
