// Package imports_test checks which package may import which: the layers of
// docs/architecture.md.
package imports_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	self = "github.com/osm-gitops/osm-gitops/"
	root = "../.."
)

// clients are the packages with which one talks to a cluster.
var clients = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "github.com/fluxcd/pkg/runtime"}

// layers are the packages of the product from the bottom up. A package imports packages of
// lower layers, packages below its own folder and above, and what peers allows.
var layers = [][]string{
	{"pkg/api"},
	{"pkg/redact", "pkg/phrase", "pkg/runnerlog", "pkg/githost", "pkg/source", "pkg/profile", "pkg/render", "pkg/lineage", "pkg/selection", "pkg/auditlog", "pkg/attestation", "pkg/scaffold", "pkg/schema"},
	{"pkg/lint", "pkg/impact", "pkg/migrate/importer", "pkg/migrate/takeover"},
	{"pkg/kubeclient", "pkg/fetcher", "pkg/listen"},
	{"pkg/inspect", "pkg/migrate/handback", "pkg/reconcile"},
	{"pkg/manager"},
	{"cmd"},
}

// withClients is the first of the layers that may depend on clients.
const withClients = 3

// peers are the imports within one layer.
var peers = map[string][]string{
	"pkg/profile":     {"pkg/redact", "pkg/phrase", "pkg/source"},
	"pkg/lineage":     {"pkg/render"},
	"pkg/selection":   {"pkg/profile"},
	"pkg/attestation": {"pkg/render"},
	"pkg/render":      {"pkg/redact", "pkg/phrase"},
	// It renders for the same pools as lint.
	"pkg/migrate/importer": {"pkg/lint/matrix"},
	// It restores inputs of pools, archives their records and selects their tokens with the controller's
	// own code. Most of that takes clients, so it cannot be in pkg/lineage.
	"pkg/migrate/handback": {"pkg/reconcile/pools/archive", "pkg/reconcile/pools/desired", "pkg/reconcile/pools/fault", "pkg/reconcile/pools/token"},
}

// services are packages of pkg/reconcile that controllers share.
var services = []string{"commitstatus", "metrics", "notify", "ownership", "shard"}

// controllers are the imports of one controller by another.
var controllers = map[string][]string{
	"boots": {"nodes"}, // reads machines, their pools and records, and the indexes of caches, as it does
}

// layerOf is the index of a package's layer, and its entry there.
func layerOf(p string) (int, string) {
	for i, layer := range layers {
		for _, entry := range layer {
			if p == entry || strings.HasPrefix(p, entry+"/") {
				return i, entry
			}
		}
	}
	return -1, ""
}

func TestLayers(t *testing.T) {
	packages := 0
	for _, line := range lines(t, "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./cmd/...", "./pkg/...") {
		fields := strings.Fields(line)
		p := strings.TrimPrefix(fields[0], self)
		packages++
		layer, entry := layerOf(p)
		if layer < 0 {
			t.Errorf("%s belongs to no layer", p)
			continue
		}
		for _, imported := range fields[1:] {
			imported, ours := strings.CutPrefix(imported, self)
			if !ours || imported == "profiles" {
				continue
			}
			other, otherEntry := layerOf(imported)
			switch {
			case strings.HasPrefix(imported, "test/"):
				t.Errorf("%s imports %s: the product does not need its tests", p, imported)
			case imported == "pkg/lint/shellcheck" && layer < len(layers)-1:
				t.Errorf("%s imports %s, which runs a program: only cmd does", p, imported)
			case other < layer, otherEntry == entry && entry != "pkg/reconcile":
			case entry == "pkg/reconcile" && otherEntry == entry:
				from, to := controllerOf(p), controllerOf(imported)
				if from != to && (slices.Contains(services, from) && !slices.Contains(services, to) || !slices.Contains(services, to) && !slices.Contains(controllers[from], to)) {
					t.Errorf("%s imports %s: two controllers share a service or a lower layer", p, imported)
				}
			case other > layer || !slices.ContainsFunc(peers[entry], func(peer string) bool { return imported == peer || strings.HasPrefix(imported, peer+"/") }):
				t.Errorf("%s imports %s: it is not of a lower layer", p, imported)
			}
		}
	}
	if packages < 40 {
		t.Errorf("looked at %d packages only", packages)
	}
}

// controllerOf is the folder below pkg/reconcile.
func controllerOf(p string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(p, "pkg/reconcile/"), "/")
	return name
}

// TestNoClients: what renders, reads Git and lints can be used without a cluster.
func TestNoClients(t *testing.T) {
	packages := 0
	for _, line := range lines(t, "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`, "./cmd/...", "./pkg/...") {
		fields := strings.Fields(line)
		p := strings.TrimPrefix(fields[0], self)
		within := func(entry string) bool { return p == entry || strings.HasPrefix(p, entry+"/") }
		if layer, _ := layerOf(p); layer < withClients || p == "pkg/reconcile/rollout/replacements" || p == "pkg/reconcile/rollout/waves" {
			packages++
			for _, d := range fields[1:] {
				if slices.ContainsFunc(clients, func(c string) bool { return d == c || strings.HasPrefix(d, c+"/") }) {
					t.Errorf("%s depends on %s", p, d)
				}
			}
		}
		if slices.ContainsFunc([]string{"pkg/render", "pkg/api", "pkg/lineage", "pkg/attestation", "pkg/schema", "pkg/lint/downloads"}, within) &&
			slices.ContainsFunc(fields[1:], func(d string) bool { return strings.HasPrefix(d, "github.com/go-git/") }) {
			t.Errorf("%s depends on go-git: it is given facts, not a repository", p)
		}
	}
	if packages < 40 {
		t.Errorf("looked at %d packages only", packages)
	}
}

// planning are the files of controllers that decide what to write.
var planning = []string{
	"boots/plan.go", "pools/annotations.go", "pools/drift.go", "pools/edge.go", "pools/plan*.go", "pools/takeover.go",
	"nodes/plan.go", "profilesource/inventory/plan.go", "profilesource/retention/decide.go", "profilesource/retention/plan.go",
	"rollout/plan.go", "rollout/windows.go", "rollout/replacements/*.go", "rollout/waves/*.go",
}

// TestPlanning: what plans sends no request, for which it would need a context, and has no clock.
func TestPlanning(t *testing.T) {
	for _, pattern := range planning {
		files, err := filepath.Glob(filepath.Join(root, "pkg/reconcile", pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: found %d files, error %v", pattern, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, way := range []string{`"context"`, ".Now()"} {
				if strings.Contains(string(b), way) {
					t.Errorf("%s uses %s: it is given what was observed, and the time", name, way)
				}
			}
		}
	}
}

// TestProductImports: no testing in the product, and profiles need nothing.
func TestProductImports(t *testing.T) {
	// Butane v0.29.0 has helpers for its own tests in base/util, and with them testing
	// among its imports. Ours have none.
	if slices.Contains(list(t, "-f", `{{join .Imports "\n"}}`, "./cmd/...", "./pkg/...", "./profiles/..."), "testing") {
		t.Error("the product must not import testing")
	}
	for _, p := range list(t, "-deps", "./profiles/...") {
		if strings.HasPrefix(p, self+"pkg/") {
			t.Errorf("profiles depends on %s", p)
		}
	}
}

// TestNoCommands shows that nothing of the product runs a program, lint's call of
// shellcheck aside, which no controller imports (security.md 23).
// Libraries may import os/exec, for a kubeconfig with an exec plugin say,
// which is for the controller to refuse; our own code has no business with it.
func TestNoCommands(t *testing.T) {
	allowed := map[string]bool{"pkg/lint/shellcheck/shellcheck.go": true}
	files := 0
	for _, dir := range []string{"cmd", "pkg", "profiles"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, way := range []string{`"os/exec"`, "os.StartProcess(", "syscall.Exec(", "syscall.ForkExec(", `"plugin"`} {
				if strings.Contains(string(b), way) && !allowed[name] {
					t.Errorf("%s uses %s: the product runs no programs", name, way)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if files < 10 {
		t.Fatalf("looked at %d files only", files)
	}
}

// TestHash shows that object ids are computed by the SHA-1 that detects collisions
// (security.md 43).
func TestHash(t *testing.T) {
	if slices.Contains(list(t, "-f", `{{join .Imports "\n"}}`, "./cmd/...", "./pkg/...", "./profiles/..."), "crypto/sha1") {
		t.Error("the product must not import crypto/sha1: use NewSHA1 of pkg/source/internal/objectid")
	}
}

// list returns the output of go list as words; a pattern without packages is not an error.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	return strings.Fields(strings.Join(lines(t, args...), "\n"))
}

// lines returns the lines that go list prints.
func lines(t *testing.T, args ...string) []string {
	t.Helper()
	patterns := slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		dir, ok := strings.CutSuffix(a, "/...")
		if !ok {
			return false
		}
		_, err := os.Stat(filepath.Join(root, dir))
		return errors.Is(err, os.ErrNotExist)
	})
	if !slices.ContainsFunc(patterns, func(a string) bool { return strings.HasSuffix(a, "/...") }) {
		return nil
	}
	cmd := exec.Command("go", append([]string{"list"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %q: %s", patterns, exit.Stderr)
		}
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
