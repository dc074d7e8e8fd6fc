package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const page = "../../docs/install.md"

// blocks are what stands between fences in install.md, with lines that go on joined.
func blocks(t *testing.T) []string {
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

// set does what --set does, for paths without lists.
func set(t *testing.T, values map[string]any, path, value string) {
	t.Helper()
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		if values[key] == nil {
			values[key] = map[string]any{}
		}
		values = values[key].(map[string]any)
	}
	var typed any
	if json.Unmarshal([]byte(value), &typed) != nil {
		typed = value
	}
	values[keys[len(keys)-1]] = typed
}

// What install.md tells people to install is taken by the chart, each command with its values.
func TestCommandsOfThePage(t *testing.T) {
	flag := regexp.MustCompile(`--(namespace|set) (\S+)`)
	installs := 0
	for _, block := range blocks(t) {
		for line := range strings.SplitSeq(block, "\n") {
			_, command, found := strings.Cut(line, " install osm-gitops deploy/chart/osm-gitops ")
			if !found {
				continue
			}
			installs++
			values, namespace := map[string]any{}, ""
			for _, m := range flag.FindAllStringSubmatch(command, -1) {
				if path, value, ok := strings.Cut(m[2], "="); ok {
					set(t, values, path, value)
				} else {
					namespace = m[2]
				}
			}
			text, err := yaml.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			if rest := strings.Fields(flag.ReplaceAllString(command, "")); len(rest) > 0 || namespace == "" {
				t.Errorf("this test does not understand %q of %q", rest, line)
			}
			if out, errs, err := render(t, string(text), "chart", chartDir, namespace); err != nil || !strings.Contains(out, "namespace: "+namespace) {
				t.Errorf("%s: %v\n%s", line, err, errs)
			}
		}
	}
	if installs < 3 {
		t.Fatalf("%s has %d commands that install", page, installs)
	}
}

// The examples of values and of a kustomization on the page are what they say.
func TestExamplesOfThePage(t *testing.T) {
	tried := 0
	for _, block := range blocks(t) {
		switch {
		case strings.HasPrefix(block, "image:"):
			tried++
			args := deployment(t, chart(t, "osm", block)).Spec.Template.Spec.Containers[0].Args
			if !slices.Contains(args, "--cluster-dns=10.240.16.10") {
				t.Errorf("the values of %s do not become arguments: %q", page, args)
			}
		case strings.HasPrefix(block, "# kustomization.yaml"):
			tried++
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
