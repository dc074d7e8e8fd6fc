package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAssemble(t *testing.T) {
	parts := map[string]string{"a": "one\n\n  two\n", "b": "three\n", "open": "no line break"}
	part := func(name string) (string, error) {
		text, ok := parts[name]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	}
	for name, c := range map[string]struct {
		source, want string
		err          bool
	}{
		"a part":                          {"  data: \"@part a\"\nx: 1\n", "  data: |\n    one\n\n      two\nx: 1\n", false},
		"two parts in one":                {"data: \"@part a b\"\n", "data: |\n  one\n\n    two\n  three\n", false},
		"another text":                    {"data: \"part a\"\n", "data: \"part a\"\n", false},
		"a part that is not there":        {"data: \"@part c\"\n", "", true},
		"a part without its last newline": {"data: \"@part open\"\n", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := assemble(c.source, part)
			if (err != nil) != c.err || err == nil && got != c.want {
				t.Errorf("got %q, error %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestUnusedPart fails for a file of parts/ that no profile uses.
func TestUnusedPart(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []struct{ path, text string }{
		{"source/osp-x.yaml.in", "data: \"@part a\"\n"}, {"parts/a", "x\n"},
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file.path)), 0o700), os.WriteFile(filepath.Join(dir, file.path), []byte(file.text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "parts", "b"), []byte("y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err == nil {
		t.Error("a part that nobody names is not reported")
	}
}
