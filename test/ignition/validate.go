package ignition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/program"
)

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
	validator := program.Program{Name: "ignition-" + name, Sources: "test/ignition/" + name, Package: ".", Args: []string{"-trimpath"}, Minutes: "some seconds"}
	path, err := validator.Path(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(docs)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", path, err, &stderr)
	}
	var findings [][]string
	if err := json.Unmarshal(out, &findings); err != nil || len(findings) != len(docs) {
		return nil, fmt.Errorf("%s answered for %d of %d documents: %w", path, len(findings), len(docs), err)
	}
	return findings, nil
}

// unavailable skips the test if this machine cannot build a validator, and fails it for any other
// error, and always in CI.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, program.ErrUnavailable) || os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "ignition: SKIPPED %s: %v\n", t.Name(), err)
	t.Skip(err)
}
