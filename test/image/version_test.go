package image_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever a version is called, make gives it to the compiler, and the shell does not execute it.
func TestVersionIsNotExecuted(t *testing.T) {
	const version = `v1.0.0'; touch executed; '"$(touch executed)"`
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const record = "#!/bin/sh\nprintf '%s\\n' \"$@\" >>\"$RECORD\"\n"
	for name, text := range map[string]string{"Makefile": string(makefile), "hack/prerequisites": record, "bin/go": record, "bin/build-image": record} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "tools", "image"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"build", "binaries", "image"} {
		record := filepath.Join(dir, target)
		// $ is doubled for make itself.
		cmd := exec.CommandContext(t.Context(), "make", target, "VERSION="+strings.ReplaceAll(version, "$", "$$"), "COMMIT=c", "CREATED=now", "RELEASE=a folder", "MACHINES=linux/amd64")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "RECORD="+record)
		out, _ := cmd.CombinedOutput() // binaries fails: go wrote no file
		got, err := os.ReadFile(record)
		if err != nil || !strings.Contains(string(got), version) {
			t.Errorf("make %s: the compiler got %q (%v)\n%s", target, got, err, out)
		}
		if found, err := filepath.Glob(filepath.Join(dir, "*", "executed")); err != nil || len(found) > 0 {
			t.Errorf("make %s executed the version: %q (%v)", target, found, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "executed")); err == nil {
			t.Errorf("make %s executed the version", target)
		}
	}
}
