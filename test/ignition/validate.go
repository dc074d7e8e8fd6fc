package ignition

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// errUnavailable means that a validator cannot be had on this machine: no go
// command, or modules that cannot be downloaded. Sources that do not compile are
// another error.
var errUnavailable = errors.New("no Ignition validator on this machine")

// buildEnv is everything that a validator depends on apart from its sources and the Go release.
// GOFLAGS and GOWORK are reset so that a contributor's settings do not cause a second build.
var buildEnv = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}

// Validate fails the test for every finding of Ignition, including warnings, in documents of any
// version.
func Validate(t testing.TB, docs ...[]byte) {
	t.Helper()
	if len(docs) == 0 {
		t.Fatal("no documents to validate: an empty list must not pass")
	}
	for i, findings := range Findings(t, docs...) {
		for _, finding := range findings {
			t.Errorf("document %d, %.60s...: %s", i, docs[i], finding)
		}
	}
}

// Findings returns Ignition's findings for each document. It skips the test if the validators
// cannot be built, and fails it in CI.
func Findings(t testing.TB, docs ...[]byte) [][]string {
	t.Helper()
	all := make([][]string, len(docs))
	texts, places := map[string][]string{}, map[string][]int{}
	for i, doc := range docs {
		name, err := validatorOf(doc)
		if err != nil {
			all[i] = []string{err.Error()}
			continue
		}
		texts[name], places[name] = append(texts[name], string(doc)), append(places[name], i)
	}
	for name := range texts {
		findings, err := run(t.Context(), name, texts[name])
		if err != nil {
			unavailable(t, err)
		}
		for n, i := range places[name] {
			all[i] = findings[n]
		}
	}
	return all
}

// validatorOf names the validator for a document.
func validatorOf(doc []byte) (string, error) {
	var d struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return "", fmt.Errorf("is not JSON: %w", err)
	}
	switch major, _, _ := strings.Cut(d.Ignition.Version, "."); major {
	case "2":
		return "v2", nil
	case "3":
		return "v3", nil
	}
	return "", fmt.Errorf("has version %q", d.Ignition.Version)
}

func run(ctx context.Context, name string, docs []string) ([][]string, error) {
	program, err := binary(ctx, name)
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(docs)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", program, err, &stderr)
	}
	var findings [][]string
	if err := json.Unmarshal(out, &findings); err != nil || len(findings) != len(docs) {
		return nil, fmt.Errorf("%s answered for %d of %d documents: %w", program, len(findings), len(docs), err)
	}
	return findings, nil
}

// binary returns the path of a validator. If it does not exist it is built, which takes seconds. It
// is in the user's cache directory at osm-gitops/ignition/HASH; the hash covers sources, flags and
// the Go release. All of it can be deleted at any time.
func binary(ctx context.Context, name string) (string, error) {
	_, self, _, _ := runtime.Caller(0)
	sources := filepath.Join(filepath.Dir(self), name)
	hash, err := hashOf(ctx, sources)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	dir := filepath.Join(cache, "osm-gitops", "ignition", hash)
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Listing the packages downloads their modules. It fails if there is no network; the build
	// after it fails only if the code is wrong.
	if out, err := command(ctx, sources, "list", "-deps", ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: fetching the modules of test/ignition/%s: %w\n%s", errUnavailable, name, err, out)
	}
	// Tests of several packages may build at the same time: the last to rename wins.
	partial, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	built := filepath.Join(partial, name)
	if out, err := command(ctx, sources, "build", "-trimpath", "-o", built, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building test/ignition/%s: %w\n%s", name, err, out)
	}
	return program, os.Rename(built, program)
}

// hashOf reads the sources in the test itself, so that go test takes no result
// from its cache when one has changed.
func hashOf(ctx context.Context, sources string) (string, error) {
	version, err := command(ctx, sources, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: running go version: %w", errUnavailable, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s%q\n", version, buildEnv)
	for _, file := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join(sources, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", file, len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv...)
	return cmd
}

// unavailable skips the test if this machine cannot build a validator, and fails it for any other
// error, and always in CI.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, errUnavailable) || os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "ignition: SKIPPED %s: %v\n", t.Name(), err)
	t.Skip(err)
}
