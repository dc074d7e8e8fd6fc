package render_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

func edgeInput(server, ca, token string) render.Input {
	return render.Input{
		Pool:     render.Pool{Name: "pool", Namespace: "shop", CloudProvider: "edge"},
		Settings: render.Settings{KubernetesCACert: ca},
		Cluster:  render.Cluster{Server: server, APIServerToken: token},
	}
}

// edgeHost is a machine that runs the script: a root in a temporary folder, and substitutes for
// the programs that would change the host.
type edgeHost struct {
	dir, target, calls string
	path               []string
}

// newEdgeHost writes the substitutes, a map from a name to a script that can use $DIR. The file
// "calls" records each call with its arguments.
func newEdgeHost(t *testing.T, programs map[string]string) *edgeHost {
	t.Helper()
	h := &edgeHost{dir: t.TempDir()}
	h.target = filepath.Join(h.dir, "cloud.cfg.d", "pool-shop-bootstrap-config.cfg")
	h.calls = filepath.Join(h.dir, "calls")
	bin := filepath.Join(h.dir, "bin")
	if err := os.MkdirAll(filepath.Join(h.dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	stand := map[string]string{
		"id": "echo 0", "sleep": "", "systemctl": "",
		"cloud-init": `case $1 in --version) echo "/usr/bin/cloud-init 25.1.4-0ubuntu0~24.04.1";; esac`,
	}
	for name, text := range programs {
		stand[name] = text
	}
	for name, text := range stand {
		text = "#!/bin/sh\necho \"" + name + " $*\" >>'" + h.calls + "'\nDIR='" + h.dir + "'; export DIR\n" + text + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	h.path = []string{bin, "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	return h
}

// run runs a script and returns its output.
func (h *edgeHost) run(t *testing.T, script string) (string, error) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	file := filepath.Join(h.dir, "script")
	script = strings.ReplaceAll(script, "/etc/cloud/cloud.cfg.d", filepath.Dir(h.target))
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), sh, file)
	cmd.Env = []string{"PATH=" + strings.Join(h.path, ":"), "TMPDIR=" + filepath.Join(h.dir, "tmp"), "HOME=" + h.dir}
	out, err := cmd.CombinedOutput()
	if left, _ := os.ReadDir(filepath.Join(h.dir, "tmp")); len(left) != 0 {
		t.Errorf("it left %v behind", left)
	}
	return string(out), err
}

// called returns the recorded calls except those of id and sleep.
func (h *edgeHost) called(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(h.calls)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "id ") && !strings.HasPrefix(line, "sleep ") {
			out = append(out, strings.ReplaceAll(line, h.target, "TARGET"))
		}
	}
	return out
}

// secretJSON is a Secret as an API server prints it, with the traps that a
// reader without a JSON parser has to step around.
func secretJSON(t *testing.T, document string, indent bool) []byte {
	t.Helper()
	type metadata struct {
		Name          string            `json:"name"`
		Labels        map[string]string `json:"labels"`
		Annotations   map[string]string `json:"annotations"`
		ManagedFields []any             `json:"managedFields"`
	}
	secret := struct {
		Kind       string            `json:"kind"`
		APIVersion string            `json:"apiVersion"`
		Metadata   metadata          `json:"metadata"`
		Data       map[string][]byte `json:"data"`
		Type       string            `json:"type"`
	}{"Secret", "v1", metadata{
		Name:          "pool-shop-bootstrap-config",
		Labels:        map[string]string{"cloud-config": "VFJBUA==", "data": "x"},
		Annotations:   map[string]string{"last": `{"data":{"cloud-config":"VFJBUA=="}}`, "cloud-config": "VFJBUA=="},
		ManagedFields: []any{map[string]any{"fieldsV1": map[string]any{"f:data": map[string]any{"f:cloud-config": map[string]any{}}}}},
	}, map[string][]byte{"cloud-config": []byte(document), "another": []byte("TRAP"), "x-cloud-config": []byte("TRAP")}, "Opaque"}
	b, err := json.Marshal(secret)
	if indent {
		b, err = json.MarshalIndent(secret, "", "  ")
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answers is an API server that sends its answers one after the other, and then repeats the
// last.
type answers struct {
	t     *testing.T
	mutex sync.Mutex
	asked int
	all   []http.HandlerFunc
}

func (a *answers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a.mutex.Lock()
	answer := a.all[min(a.asked, len(a.all)-1)]
	a.asked++
	a.mutex.Unlock()
	if req.URL.Path != "/api/v1/namespaces/cloud-init-settings/secrets/pool-shop-bootstrap-config" || req.Header.Get("Authorization") != "Bearer canary'$(id)`\\" {
		a.t.Errorf("asked for %s as %q", req.URL, req.Header.Get("Authorization"))
	}
	answer(w, req)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary is forbidden", code) }
}

func body(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) }
}

// half announces a body and sends half of it.
func half(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		_, _ = w.Write(b[:len(b)/2])
	}
}

func edgeServer(t *testing.T, all ...http.HandlerFunc) (*httptest.Server, *answers, string) {
	t.Helper()
	a := &answers{t: t, all: all}
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	return server, a, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

const edgeToken = "canary'$(id)`\\"

// TestEdgeScript runs the script for real, against an API server that has a bad day.
func TestEdgeScript(t *testing.T) {
	document := "#cloud-config\nwrite_files: []\n# " + strings.Repeat("ü and ~?> fill the alphabet of base64, ", 2000) + "\n"
	good := secretJSON(t, document, true)
	server, a, ca := edgeServer(t,
		status(http.StatusServiceUnavailable), status(http.StatusNotFound), half(good), body(good[:len(good)/2]), body(nil),
		body(secretJSON(t, "null", true)), body([]byte(`{"kind":"Status"}`)), body(secretJSON(t, document, false)))
	h := newEdgeHost(t, nil)
	said, err := h.run(t, edgeInput(server.URL, ca, edgeToken).EdgeScript())
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if a.asked != len(a.all) {
		t.Errorf("it asked %d times, want %d:\n%s", a.asked, len(a.all), said)
	}
	got, err := os.ReadFile(h.target)
	if err != nil || string(got) != document {
		t.Errorf("the document has %d bytes, want %d (err %v)", len(got), len(document), err)
	}
	if info, err := os.Stat(h.target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (err %v)", info.Mode(), err)
	}
	if files, _ := filepath.Glob(filepath.Dir(h.target) + "/*"); len(files) != 1 {
		t.Errorf("beside it are %v", files)
	}
	want := []string{"cloud-init --version", "cloud-init init --file TARGET", "systemctl daemon-reload", "systemctl enable bootstrap.service", "systemctl restart --no-block bootstrap.service"}
	if calls := h.called(t); strings.Join(calls, "\n") != strings.Join(want, "\n") {
		t.Errorf("it called\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
	calls, _ := os.ReadFile(h.calls)
	if strings.Contains(said, "canary") || strings.Contains(string(calls), "canary") {
		t.Errorf("the token is in what it said or called:\n%s\n%s", said, calls)
	}
	if !strings.Contains(string(calls), "sleep 1\n") || !strings.Contains(string(calls), "sleep 30\n") || strings.Contains(string(calls), "sleep 32\n") {
		t.Errorf("it does not back off to half a minute:\n%s", calls)
	}

	// Run again, it does the same again.
	if said, err := h.run(t, edgeInput(server.URL, ca, edgeToken).EdgeScript()); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestEdgeScriptCloudInit: both orders of arguments, and the possible results of cloud-init.
func TestEdgeScriptCloudInit(t *testing.T) {
	for name, c := range map[string]struct {
		version, cloudInit, systemctl string
		want                          []string
	}{
		"24.0.0":        {version: "24.0.0", want: []string{"cloud-init init --file TARGET"}},
		"23.4":          {version: "23.4", want: []string{"cloud-init --file TARGET init"}},
		"22.4.2":        {version: "22.4.2", want: []string{"cloud-init --file TARGET init"}},
		"0.7.9":         {version: "0.7.9", want: []string{"cloud-init --file TARGET init"}},
		"it recovers":   {version: "25.1", cloudInit: "exit 2", want: []string{"cloud-init init --file TARGET"}},
		"it fails once": {version: "25.1", cloudInit: `mkdir "$DIR/once" 2>/dev/null && exit 1; exit 0`, want: []string{"cloud-init init --file TARGET", "cloud-init init --file TARGET"}},
		"it has run before": {version: "25.1", cloudInit: `if [ "$1" = clean ]; then touch "$DIR/clean"; fi`,
			systemctl: `if [ "$1" = enable ] && [ ! -e "$DIR/clean" ]; then exit 1; fi`,
			want:      []string{"cloud-init init --file TARGET", "cloud-init clean", "cloud-init init --file TARGET"}},
	} {
		t.Run(name, func(t *testing.T) {
			server, _, ca := edgeServer(t, body(secretJSON(t, "#cloud-config\n", true)))
			h := newEdgeHost(t, map[string]string{
				"cloud-init": `if [ "$1" = --version ]; then echo "/usr/bin/cloud-init ` + c.version + `" >&2; exit 0; fi` + "\n" + c.cloudInit,
				"systemctl":  c.systemctl,
			})
			if said, err := h.run(t, edgeInput(server.URL, ca, edgeToken).EdgeScript()); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			var got []string
			for _, call := range h.called(t) {
				if strings.HasPrefix(call, "cloud-init ") && call != "cloud-init --version" {
					got = append(got, call)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("it called\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestEdgeScriptTrustsNobodyElse: a server with another CA, or with none, never
// sees the token.
func TestEdgeScriptTrustsNobodyElse(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"another CA": (*httptest.Server).StartTLS,
		"no TLS":     (*httptest.Server).Start,
	} {
		t.Run(name, func(t *testing.T) {
			stranger := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				t.Errorf("a stranger was asked with %q", req.Header.Get("Authorization"))
			}))
			stranger.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail
			start(stranger)
			t.Cleanup(stranger.Close)
			h := newEdgeHost(t, map[string]string{"sleep": `kill "$PPID"`})
			said, err := h.run(t, edgeInput(stranger.URL, otherCA(t), edgeToken).EdgeScript())
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(said, "fetch failed, next try in 1s") || strings.Contains(said, "canary") {
				t.Errorf("error %v, it said %s", err, said)
			}
			if _, err := os.Stat(h.target); err == nil {
				t.Error("it wrote a document")
			}
		})
	}
}

// otherCA returns a CA that signed no certificate of the test.
func otherCA(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestEdgeScriptNeeds: the script reports a missing requirement before it changes anything.
func TestEdgeScriptNeeds(t *testing.T) {
	script := edgeInput("https://127.0.0.1:1", "", edgeToken).EdgeScript()
	h := newEdgeHost(t, map[string]string{"id": "echo 1000"})
	if said, err := h.run(t, script); err == nil || !strings.Contains(said, "run this as root") {
		t.Errorf("error %v, it said %s", err, said)
	}
	if strings.Contains(script, "--cacert") {
		t.Error("it trusts a CA that it was not given")
	}
}

// TestEdgeScriptText: the shell parses the script for any values.
func TestEdgeScriptText(t *testing.T) {
	hostile := "a\nEND\nENDD\n$(touch /tmp/x) `id` \\ ' \" ${x}\n"
	in := edgeInput("https://[fd00::1]:6443/'x'", hostile, hostile)
	for name, script := range map[string]string{
		"ordinary": edgeInput("https://api.example.com:6443", "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n", "eyJ.a.b").EdgeScript(),
		"hostile":  in.EdgeScript(),
	} {
		t.Run(name, func(t *testing.T) {
			if left := regexp.MustCompile("@[A-Z]+@").FindString(script); left != "" || strings.HasPrefix(script, "#!") {
				t.Errorf("it has a shebang, or %q in it", left)
			}
			for _, check := range [][]string{{"sh", "-n"}, {"shellcheck", "-s", "sh", "-S", "style", "-"}} {
				if _, err := exec.LookPath(check[0]); err != nil {
					t.Logf("no %s here", check[0])
					continue
				}
				cmd := exec.Command(check[0], check[1:]...)
				cmd.Stdin = strings.NewReader(script)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", check[0], err, out)
				}
			}
		})
	}
	if first, second := in.EdgeScript(), in.EdgeScript(); first != second || first == edgeInput(in.Cluster.Server, "other", hostile).EdgeScript() {
		t.Error("it is not made of its input, or not of that alone")
	}
}
