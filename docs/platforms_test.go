package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// system is one that test/bootnodes boots.
var system = regexp.MustCompile(`name: "[^"]+", profile: "([^"]+)", os: "[^"]+", provider: "([^"]+)", image: "([^"]+)"`)

// platformsTable lists the built-in profiles with the providers and kubelets for which test/profiles
// renders all of them, and what of that test/bootnodes boots.
func platformsTable(t *testing.T) string {
	t.Helper()
	booted := map[string][]string{}
	for _, m := range system.FindAllStringSubmatch(string(read(t, "../test/bootnodes/systems_test.go")), -1) {
		booted[m[1]] = append(booted[m[1]], fmt.Sprintf("`%s` with Debian's `%s`", m[2], m[3]))
	}
	paths, err := filepath.Glob("../profiles/osp-*.yaml")
	if err != nil || len(paths) != len(booted) {
		t.Fatalf("%d profiles, %d of them booted: %v", len(paths), len(booted), err)
	}
	var kubelets []string
	for _, version := range matrix.Kubelets() {
		kubelets = append(kubelets, "`"+version[:strings.LastIndex(version, ".")]+"`")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| profile | rendered, with kubelets %s | booted, with kubelet `%s` |\n|---|---|---|\n", strings.Join(kubelets, ", "), strings.TrimPrefix(program.KubernetesVersion, "v"))
	for _, path := range paths {
		docs, err := profile.Decode(filepath.Base(path), read(t, path))
		if err != nil || len(docs) != 1 {
			t.Fatalf("%s has %d profiles: %v", path, len(docs), err)
		}
		var providers []string
		for _, p := range docs[0].Spec.SupportedCloudProviders {
			providers = append(providers, "`"+string(p.Name)+"`")
		}
		slices.Sort(providers)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", docs[0].Name, strings.Join(providers, ", "), strings.Join(booted[docs[0].Name], "; "))
	}
	return b.String()
}
