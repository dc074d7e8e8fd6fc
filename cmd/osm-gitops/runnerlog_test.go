package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/runner"
)

// Output in a CI job contains no command to the runner, except the annotations of "lint -o
// github" (security.md 39).
func TestNoCommandsToARunner(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	dir := t.TempDir()
	for i, name := range runner.Hostile {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		// Files of profiles with errors that quote what they hold.
		content := "apiVersion: operatingsystemmanager.k8c.io/v1alpha1\nkind: OperatingSystemProfile\nmetadata:\n  name: \"##[set-output name=x]" + string(rune('a'+i)) + "\"\nspec:\n  \"::error::x\": 1\n"
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"lint", dir, "--shellcheck", "off"}, {"lint", dir, "--shellcheck", "off", "-o", "github"}, {"lint", dir, "--shellcheck", "off", "-o", "json"},
		{"lint", dir, "--shellcheck", "off", "-o", "sarif"}, {"lint", dir, "--shellcheck", "off", "-o", "junit"},
		{"render", "##[error]x"}, {"diff", "##[error]x", "--machine-deployments", "##[error]y"}, {"bundle", "##[error]x"}, {"import", "##[error]x"}, {"verify", "##[error]x"}, {"\n  ::stop-commands::x"}, {"##[error]x"},
	} {
		t.Run(strings.TrimSpace(strings.Join(args, " ")), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			run(t.Context(), append([]string{"osm-gitops"}, args...), strings.NewReader(""), &stdout, &stderr)
			if said := stdout.String() + stderr.String(); !strings.Contains(said, "##") && args[0] != "\n  ::stop-commands::x" {
				t.Errorf("it does not name a file: %s", said)
			}
			for _, command := range runner.Commands(stdout.String() + "\n" + stderr.String()) {
				if args[len(args)-1] != "github" || !strings.HasPrefix(command, "::error file=") {
					t.Errorf("command %q", command)
				}
			}
		})
	}
}

// Log output in a CI job, as with --dry-run, contains no command either, and JSON is
// unchanged (security.md 39, 45).
func TestLogInARunner(t *testing.T) {
	t.Setenv("TF_BUILD", "True")
	const hostile = "fetching: \n ::error::x\n##[set-output name=x]y ##vso[task.x]\u202ez\x1b[0m"
	for _, format := range []string{"JSON", "Console"} {
		var log bytes.Buffer
		(&controllerFlags{logFormat: format}).newLogger(&log).Error(errors.New(hostile), hostile, "path", hostile)
		if commands := runner.Commands(log.String()); len(commands) > 0 || strings.ContainsAny(log.String(), "\u202e\x1b") || !strings.Contains(log.String(), "fetching") {
			t.Errorf("%s: commands %q in %q", format, commands, &log)
		}
		if format != "JSON" {
			continue
		}
		var line struct{ Msg, Error, Path string }
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Msg != hostile || line.Error != hostile || line.Path != hostile {
			t.Errorf("it reads as %q (err %v)", line, err)
		}
	}
}
