// Package imports_test holds the walls between the rooms of this repository: what
// each may import, and what none may. See CONTRIBUTING.md for the rooms.
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

// rooms says for each room what must not be among its dependencies, its tests
// aside. A room that is not built yet has no walls.
var rooms = map[string][]string{
	"pkg/api":     append([]string{self + "cmd", self + "pkg/source", self + "pkg/render", self + "pkg/profile", self + "pkg/reconcile", "github.com/go-git"}, clients...),
	"pkg/source":  append([]string{self + "cmd", self + "pkg/render", self + "pkg/profile", self + "pkg/reconcile"}, clients...),
	"pkg/render":  append([]string{self + "cmd", self + "pkg/source", self + "pkg/profile", self + "pkg/reconcile", "github.com/go-git"}, clients...),
	"pkg/profile": append([]string{self + "cmd", self + "pkg/render", self + "pkg/reconcile"}, clients...),
	"pkg/lint":    append([]string{self + "cmd", self + "pkg/reconcile"}, clients...),
	// Its neighbours in pkg/reconcile, notes, waves and wishes, have no client either.
	"pkg/impact":           append([]string{self + "cmd"}, clients...),
	"pkg/journal":          append([]string{self + "cmd", self + "pkg/api", self + "pkg/source", self + "pkg/render", self + "pkg/profile", self + "pkg/reconcile"}, clients...),
	"pkg/lineage":          append([]string{self + "cmd", self + "pkg/source", self + "pkg/profile", self + "pkg/reconcile", "github.com/go-git"}, clients...),
	"pkg/attestation":      append([]string{self + "cmd", self + "pkg/source", self + "pkg/profile", self + "pkg/reconcile", "github.com/go-git"}, clients...),
	"pkg/reconcile":        {self + "cmd", self + "pkg/lint/shellcheck"},
	"pkg/runnerlog":        append([]string{self + "cmd", self + "pkg/reconcile", self + "pkg/lint"}, clients...),
	"pkg/redact":           append([]string{self + "cmd", self + "pkg/reconcile", self + "pkg/lint"}, clients...),
	"pkg/lint/downloads":   append([]string{self + "cmd", self + "pkg/source", self + "pkg/profile", self + "pkg/reconcile", "github.com/go-git"}, clients...),
	"pkg/schema":           append([]string{self + "cmd", self + "pkg/source", self + "pkg/render", self + "pkg/profile", self + "pkg/reconcile", "github.com/go-git"}, clients...),
	"pkg/migrate/importer": append([]string{self + "cmd", self + "pkg/reconcile"}, clients...),
	"pkg/scaffold":         append([]string{self + "cmd", self + "pkg/reconcile", self + "pkg/render", self + "pkg/profile"}, clients...),
	"profiles":             append([]string{self + "cmd", self + "pkg"}, clients...),
}

func TestRooms(t *testing.T) {
	for room, banned := range rooms {
		t.Run(room, func(t *testing.T) {
			for _, p := range list(t, "-deps", "./"+room+"/...") {
				for _, b := range banned {
					if p == b || strings.HasPrefix(p, b+"/") {
						t.Errorf("%s must not depend on %s", room, p)
					}
				}
			}
		})
	}
	t.Run("nothing imports test/", func(t *testing.T) {
		for _, p := range list(t, "-deps", "./cmd/...", "./pkg/...", "./profiles/...") {
			if strings.HasPrefix(p, self+"test/") {
				t.Errorf("the product must not depend on %s", p)
			}
		}
		// Butane v0.29.0 has helpers for its own tests in base/util, and with them
		// testing among its imports. Ours have none.
		if slices.Contains(list(t, "-f", `{{join .Imports "\n"}}`, "./cmd/...", "./pkg/...", "./profiles/..."), "testing") {
			t.Error("the product must not import testing")
		}
	})
	t.Run("every room has walls", func(t *testing.T) {
		packages := list(t, "./pkg/...")
		if len(packages) < 3 {
			t.Fatalf("found %d packages only", len(packages))
		}
		for _, p := range packages {
			room := strings.Join(strings.SplitN(strings.TrimPrefix(p, self), "/", 3)[:2], "/")
			if _, ok := rooms[room]; !ok {
				t.Errorf("%s belongs to no room", p)
			}
		}
	})
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
		t.Error("the product must not import crypto/sha1: use newSHA1 of pkg/source")
	}
}

// list returns the packages that go list names; none match is no error.
func list(t *testing.T, args ...string) []string {
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
	return strings.Fields(string(out))
}
