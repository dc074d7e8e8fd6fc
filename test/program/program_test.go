package program

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository makes a directory that looks like ours, with a program of a few
// lines for a control plane, and goes there. The cache is empty.
func repository(t *testing.T, code string) {
	t.Helper()
	dir := t.TempDir()
	sources := filepath.Join(dir, "test", "controlplane")
	below := filepath.Join(dir, "pkg", "deep")
	for _, d := range []string{sources, below} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"go.mod": "module example.com/controlplane\n\ngo 1.26.0\n", "go.sum": "", "main.go": code} {
		if err := os.WriteFile(filepath.Join(sources, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(below)
	// The build cache lies in the user's cache directory as well, unless named.
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(out)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestPath(t *testing.T) {
	const program = "package main\n\nfunc main() {}\n"

	t.Run("builds once", func(t *testing.T) {
		repository(t, program)
		var said bytes.Buffer
		first, err := ControlPlane.Path(t.Context(), &said)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(first).CombinedOutput(); err != nil {
			t.Errorf("running it: %v: %s", err, out)
		}
		if !strings.Contains(said.String(), "building") || !strings.Contains(said.String(), first) {
			t.Errorf("progress does not tell what is built and where it lies: %q", &said)
		}
		said.Reset()
		second, err := ControlPlane.Path(t.Context(), &said)
		if err != nil || second != first || said.Len() > 0 {
			t.Errorf("the second time: %s, %v, %q; want %s and nothing said", second, err, &said, first)
		}
	})

	t.Run("builds again when the sources differ", func(t *testing.T) {
		repository(t, program)
		first, err := ControlPlane.Path(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../../test/controlplane/more.go", []byte("package main\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := ControlPlane.Path(t.Context(), io.Discard)
		if err != nil || second == first {
			t.Errorf("got %s (%v) again", second, err)
		}
	})

	for name, tc := range map[string]struct {
		code        string
		env         map[string]string
		unavailable bool
		word        string
	}{
		"no go command":         {program, map[string]string{"PATH": "/nonexistent"}, true, "go version"},
		"a module out of reach": {"package main\n\nimport _ \"example.com/missing\"\n\nfunc main() {}\n", map[string]string{"GOPROXY": "off"}, true, "example.com/missing"},
		"code does not compile": {"package main\n\nfunc main() { undefined() }\n", nil, false, "undefined: undefined"},
	} {
		t.Run(name, func(t *testing.T) {
			repository(t, tc.code)
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			_, err := ControlPlane.Path(t.Context(), io.Discard)
			if errors.Is(err, ErrUnavailable) != tc.unavailable || err == nil || !strings.Contains(err.Error(), tc.word) {
				t.Errorf("got %v; want unavailable %t and %q", err, tc.unavailable, tc.word)
			}
		})
	}

	t.Run("outside the repository", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if _, err := ControlPlane.Path(t.Context(), io.Discard); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v, want unavailable", err)
		}
	})
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := lock(short, path, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second lock: %v, want that time ran out", err)
	}
	time.AfterFunc(300*time.Millisecond, unlock)
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
