package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	page        = "../../docs/install.md"
	upgradePage = "../../docs/upgrade.md"
)

// blocks returns the fenced blocks of a page, with their language, and with continued lines
// joined.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, part := range strings.Split(string(b), "```") {
		if i%2 == 1 {
			out = append(out, strings.TrimSpace(strings.ReplaceAll(part, "\\\n", " ")))
		}
	}
	return out
}

// The examples of values and of a kustomization on the page are what they say.
func TestExamplesOfThePage(t *testing.T) {
	tried := 0
	for _, block := range blocks(t, page) {
		switch {
		case strings.HasPrefix(block, "yaml\nimage:"):
			tried++
			block = strings.TrimPrefix(block, "yaml\n")
			args := deployment(t, chart(t, "osm", block)).Spec.Template.Spec.Containers[0].Args
			if !slices.Contains(args, "--cluster-dns=10.240.16.10") {
				t.Errorf("the values of %s do not become arguments: %q", page, args)
			}
		case strings.HasPrefix(block, "yaml\n# kustomization.yaml"):
			tried++
			block = strings.TrimPrefix(block, "yaml\n")
			root, err := filepath.Abs("../..")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "mine"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(root, filepath.Join(dir, "osm-gitops")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "mine", "kustomization.yaml"), []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs, err := render(t, "", "kustomize", filepath.Join(dir, "mine"))
			if err != nil {
				t.Fatalf("%v\n%s", err, errs)
			}
			if image := deployment(t, objects(t, out)).Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/platform/osm-gitops:v1.0.0" {
				t.Errorf("the kustomization of %s runs %s", page, image)
			}
		}
	}
	if tried != 2 {
		t.Fatalf("%s has %d examples", page, tried)
	}
}
