package ci_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRenovate applies the regular expressions to the profiles of this repository: each
// version of a download that a profile names is found, with what it is a version of.
func TestRenovate(t *testing.T) {
	var config struct {
		CustomManagers []struct {
			CustomType          string   `json:"customType"`
			ManagerFilePatterns []string `json:"managerFilePatterns"`
			MatchStrings        []string `json:"matchStrings"`
			DepNameTemplate     string   `json:"depNameTemplate"`
			DatasourceTemplate  string   `json:"datasourceTemplate"`
		} `json:"customManagers"`
	}
	if err := json.Unmarshal(read(t, "renovate.json"), &config); err != nil {
		t.Fatal(err)
	}
	found := func(path, text string) map[string]string {
		out := map[string]string{}
		for _, m := range config.CustomManagers {
			if m.CustomType != "regex" || m.DatasourceTemplate == "" || m.DepNameTemplate == "" {
				t.Errorf("a manager says not all that it must: %+v", m)
			}
			if !slices.ContainsFunc(m.ManagerFilePatterns, func(p string) bool { return regexp.MustCompile(strings.Trim(p, "/")).MatchString(path) }) {
				continue
			}
			for _, s := range m.MatchStrings { // Renovate uses RE2, as Go does
				re := regexp.MustCompile(s)
				for _, hit := range re.FindAllStringSubmatch(text, -1) {
					out[hit[re.SubexpIndex("currentValue")]] = m.DepNameTemplate
				}
			}
		}
		return out
	}
	paths, err := filepath.Glob("../../profiles/osp-*.yaml")
	if err != nil || len(paths) < 6 {
		t.Fatalf("found %d profiles (err %v)", len(paths), err)
	}
	// A number that the template "versions" assigns is the version of a download.
	setting := regexp.MustCompile(`(?m)\b(CNI_VERSION|CONTAINERD_VERSION|crictl|[A-Z]+_VERSION)=(?:\$\{[A-Z_]+:-)?(v?[0-9]+\.[0-9]+(?:\.[0-9]+)?)\b`)
	names := map[string]string{"CNI_VERSION": "containernetworking/plugins", "CONTAINERD_VERSION": "containerd/containerd", "crictl": "kubernetes-sigs/cri-tools"}
	for _, path := range paths {
		text := string(read(t, path))
		hits := setting.FindAllStringSubmatch(text, -1)
		if len(hits) < 2 {
			t.Errorf("%s names %d versions: there were more", path, len(hits))
		}
		got := found("profiles/"+filepath.Base(path), text)
		for _, hit := range hits {
			if want := names[hit[1]]; want == "" || got[hit[2]] != want {
				t.Errorf("%s: %s is taken for one of %q, want %q", path, hit[0], got[hit[2]], want)
			}
		}
	}
	// A copy of the reference's profiles has the value in quotes.
	if got := found("profiles/x.yaml", `CNI_VERSION="${CNI_VERSION:-v1.9.1}"`); got["v1.9.1"] != "containernetworking/plugins" {
		t.Errorf("a value in quotes is taken for %v", got)
	}
	for path, file := range map[string]string{".github/workflows/profiles.yaml": "github.yaml", ".gitlab-ci.yml": "gitlab-ci.yml"} {
		text := strings.Replace(string(read(t, file)), `OSM_GITOPS_VERSION: ""`, "OSM_GITOPS_VERSION: v1.2.3", 1)
		if got := found(path, text); got["v1.2.3"] != "github.com/osm-gitops/osm-gitops" {
			t.Errorf("%s: found %v", path, got)
		}
	}
}
