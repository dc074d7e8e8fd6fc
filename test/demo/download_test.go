package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// The programs of the archive are those of the built control plane, with the options of envtest.
const (
	fakeAPIServer = `#!/bin/sh
exec "%s" kube-apiserver "$@"
`
	fakeEtcd = `#!/bin/sh
for arg; do
	case $arg in
	--listen-client-urls=*) port=${arg##*:} ;;
	--data-dir=*) dir=${arg#*=} ;;
	--help) exit ;;
	esac
done
exec "%s" -etcd-only -dir "$dir" -etcd-port "$port"
`
)

// emptyCache gives a test an empty cache, except for Go's builds.
func emptyCache(t *testing.T) string {
	t.Helper()
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	t.Setenv("GOCACHE", strings.TrimSpace(string(gocache)))
	t.Setenv("XDG_CACHE_HOME", cache)
	return cache
}

// release serves an index with one version and its archive, and returns the URL of the index and the
// sum of the archive.
func release(t *testing.T, version string, files map[string]string) (index, sum string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range files {
		h := &tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []func() error{w.Close, z.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	archive := fmt.Sprintf("envtest-%s-%s-%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	sum = fmt.Sprintf("%x", sha512.Sum512(b.Bytes()))
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "releases:\n  %s:\n    %s:\n      hash: %s\n      selfLink: %s/%s\n", version, archive, sum, server.URL, archive)
	})
	mux.HandleFunc("/"+archive, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) })
	return server.URL + "/index.yaml", sum
}

// TestDownloaded: without a built control plane the demo runs on a downloaded one.
func TestDownloaded(t *testing.T) {
	needControlPlane(t)
	built, err := program.ControlPlane.Path(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	cache := emptyCache(t)
	t.Setenv("TMPDIR", t.TempDir())
	index, sum := release(t, archiveVersion, map[string]string{
		"kube-apiserver": fmt.Sprintf(fakeAPIServer, built), "etcd": fmt.Sprintf(fakeEtcd, built), "kubectl": "#!/bin/sh\n",
	})
	var out bytes.Buffer
	if err := demo(t.Context(), options{index: index, sum: sum}, &out, nil); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"Kubernetes " + archiveVersion + " from envtest's releases", "Kubernetes " + program.KubernetesVersion + " at https://", "verdict: agrees"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, out.String())
		}
	}
	nothingLeft(t, os.Getenv("TMPDIR"))
	if program.ControlPlane.IsBuilt(t.Context()) {
		t.Error("it built a control plane, too")
	}
	// The second time nothing is downloaded. When the demo is killed, so is what was downloaded.
	d := launchIn(t, "XDG_CACHE_HOME="+cache, "ENVTEST_INDEX=http://127.0.0.1:1/")
	d.await("AUTHOR")
	if found := processesOf(t, d.tmp); len(found) < 3 {
		t.Errorf("it runs as %q, want etcd, kube-apiserver and osm-gitops", found)
	}
	d.interrupt(syscall.SIGKILL)
	_ = d.cmd.Wait() // it was killed
	noProcess(t, d.tmp)
}

// TestNotDownloaded: what is wrong is reported, nothing of it is kept, and the control plane is built.
func TestNotDownloaded(t *testing.T) {
	cache := emptyCache(t)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	files := map[string]string{"kube-apiserver": "", "etcd": ""}
	index, sum := release(t, archiveVersion, files)
	other, otherSum := release(t, "v1.36.4", files)
	empty, emptySum := release(t, archiveVersion, map[string]string{"kubectl": ""})
	for name, c := range map[string]struct{ index, sum, want string }{
		"no server":           {"http://127.0.0.1:1/", sum, "connection refused"},
		"no answer":           {silent.URL, sum, "deadline exceeded"},
		"no such page":        {index + "s", sum, "404 Not Found"},
		"another version":     {other, otherSum, "unable to find archive for " + strings.TrimPrefix(archiveVersion, "v")},
		"another sum":         {index, archiveSums["amd64"], "checksum mismatch"}, // although the index has that of its archive
		"no program":          {empty, emptySum, "etcd: no such file"},
		"no sum of a machine": {index, "", "is not known here"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{dir: t.TempDir()}
			dir, err := s.downloaded(t.Context(), c.index, c.sum, io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v; want %q", dir, err, c.want)
			}
			left, err := filepath.Glob(filepath.Join(cache, "osm-gitops", "envtest", "*"))
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(left, func(path string) bool { return strings.Contains(path, "partial") || strings.Contains(path, "v1.") }) {
				t.Errorf("left in the cache: %q", left)
			}
		})
	}
	t.Run("a program that does not start", func(t *testing.T) {
		cache := emptyCache(t)
		files := map[string]string{"kube-apiserver": "", "etcd": "#!/bin/sh\necho no memory >&2\nexit 1\n"}
		index, sum := release(t, archiveVersion, files)
		err := demo(t.Context(), options{index: index, sum: sum}, io.Discard, nil)
		if err == nil || !strings.Contains(err.Error(), "no memory") || !strings.Contains(err.Error(), "delete "+cache) {
			t.Errorf("got %v; want what etcd printed and what to delete", err)
		}
	})
	t.Run("then it is built", func(t *testing.T) {
		d := launchIn(t, "XDG_CACHE_HOME="+cache, "ENVTEST_INDEX=http://127.0.0.1:1/")
		d.await("building the control plane, because it cannot be downloaded: ")
		d.await("program: building controlplane")
		d.interrupt(syscall.SIGINT)
		if status := d.wait(); status != exitInterrupted {
			t.Errorf("exit status %d, want %d", status, exitInterrupted)
		}
	})
}
