package v1alpha1

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// IsGitURL has the expressions of the rule that the API server applies.
func TestGitURL(t *testing.T) {
	crd, err := os.ReadFile("../../../../deploy/crds/gitops.k8c.io_profilesources.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(crd, &tree); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`self\.url\.matches\(r'([^']*)'\)`).FindAllStringSubmatch(textOf(&tree), -1) {
		want = append(want, m[1])
	}
	if got := gitURL.String(); len(want) != 3 || got != strings.Join(want, "|") {
		t.Errorf("gitURL is\n%s\nand the rule of the CRD has\n%s", got, strings.Join(want, "\n"))
	}
	for url, valid := range map[string]bool{
		"https://git.example.com/osps.git":     true,
		"git@[2001:db8::1]:osps.git":           true,
		"https://ada:x@git.example.com/o.git":  false,
		"https://git.example.com":              false,
		"/srv/osps.git":                        false,
		"ssh://git@git.example.com/with blank": false,
	} {
		if IsGitURL(url) != valid {
			t.Errorf("%s is valid: %t", url, !valid)
		}
	}
}

// textOf returns the texts of a YAML tree.
func textOf(n *yaml.Node) string {
	text := n.Value
	for _, child := range n.Content {
		text += "\n" + textOf(child)
	}
	return text
}
