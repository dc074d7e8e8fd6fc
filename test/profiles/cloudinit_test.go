package profiles_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// releases of cloud-init that judge: that of Debian 12, which is older than any
// image that a pool should use, and that of Debian 13, which knows what is deprecated.
var releases = []string{"22.4.2", "25.1.4"}

// TestCloudConfig: cloud-init's schema takes every document, without a deprecation.
// Flatcar's are left out: coreos-cloudinit reads them, which has no schema.
func TestCloudConfig(t *testing.T) {
	var all distinct[string]
	for _, r := range renderings(t) {
		if r.coreOS() {
			continue
		}
		for _, s := range r.stages() {
			all.add(r.anonymous(string(s.document)), string(s.document), r.name)
		}
	}
	judge(t, all.list)
}

// mistaken are findings that are the schema's own mistake, with the reason.
var mistaken = map[string]string{
	"22.4.2 error: rh_subscription.org: '%s' is not of type 'integer'": "the name of an organization is text; since 24.2 an integer is deprecated there",
}

// TestConformanceCloudConfig: neither has it anything to say about what profiles get
// that were written for the reference implementation.
func TestConformanceCloudConfig(t *testing.T) {
	var all distinct[string]
	engine := render.NewEngine()
	for _, c := range conformance.Cases(t) {
		in, err := c.Input(t)
		if c.WantError != "" || in.Profile.Spec.OSName == osm.OperatingSystemFlatcar {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := engine.Render(in)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		all.add(string(out.Bootstrap), string(out.Bootstrap), c.Name+" bootstrap")
		all.add(string(out.Provisioning), string(out.Provisioning), c.Name+" provisioning")
	}
	judge(t, all.list)
}

// TestCloudConfigFinds: the schema finds mistakes.
func TestCloudConfigFinds(t *testing.T) {
	samples := map[string]string{
		"error: runcmd":                       "#cloud-config\nruncmd: echo\n",
		"error: write_files":                  "#cloud-config\nwrite_files: null\n",
		"error: rh_subscription":              "#cloud-config\nrh_subscription: {username: null}\n",
		"is no YAML":                          "#cloud-config\na: [\n",
		"is no mapping":                       "#cloud-config\n- a\n",
		"its first line is not #cloud-config": "write_files: []\n",
		"deprecation: users":                  "#cloud-config\nusers:\n- {name: a, sudo: false}\n",
	}
	wants := slices.Sorted(maps.Keys(samples))
	var documents []string
	for _, want := range wants {
		documents = append(documents, samples[want])
	}
	for _, release := range releases {
		for i, findings := range runPython(t, "schema.py", cloudInit(t, release), documents) {
			if !strings.Contains(strings.Join(findings, "\n"), wants[i]) {
				t.Errorf("cloud-init %s says %q of %q, want %q", release, findings, documents[i], wants[i])
			}
		}
	}
}

// organization matches the finding for mistaken with any name.
var organization = regexp.MustCompile(`(rh_subscription\.org: )'[^']*'`)

// judge fails the test for what the schemas of all releases say of documents.
func judge(t *testing.T, list []found[string]) {
	t.Helper()
	documents := make([]string, len(list))
	for i, d := range list {
		documents[i] = d.what
	}
	var out report
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, release := range releases {
		tree := cloudInit(t, release)
		wg.Go(func() {
			start := time.Now()
			all := runPython(t, "schema.py", tree, documents)
			mu.Lock()
			defer mu.Unlock()
			for i, findings := range all {
				for _, f := range findings {
					if mistaken[release+" "+organization.ReplaceAllString(f, "$1'%s'")] == "" {
						out.add("cloud-init "+release+": "+f, list[i].in)
					}
				}
			}
			t.Logf("%d documents, cloud-init %s, %s", len(documents), release, time.Since(start).Round(time.Millisecond))
		})
	}
	wg.Wait()
	out.fail(t)
}

// python is Debian's own: the packages that cloud-init needs are installed for it.
const python = "/usr/bin/python3"

// cloudInit returns the folder with a release of cloud-init. Without one the test is
// skipped, and fails in CI.
func cloudInit(t *testing.T, release string) string {
	t.Helper()
	const needed = "python3-yaml python3-jsonschema python3-jinja2 python3-configobj python3-oauthlib python3-requests python3-jsonpatch"
	cmd := exec.Command(python, "-c", "import yaml, jsonschema, jinja2, configobj, oauthlib, requests, jsonpatch")
	if lines, err := run(cmd); err != nil {
		missing(t, "%s lacks what cloud-init needs (%v %v): install %s, or run hack/prerequisites as root", python, err, lines, needed)
	}
	var stdout, stderr bytes.Buffer
	cmd = exec.Command(filepath.Join(root, "hack", "cloud-init"), release)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		missing(t, "no cloud-init %s: hack/cloud-init: %v: %s", release, err, stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

// runPython runs a script of testdata, which answers each document with a list.
func runPython(t *testing.T, script, tree string, documents []string) [][]string {
	t.Helper()
	in, err := json.Marshal(documents)
	if err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.Command(python, "-B", filepath.Join("testdata", script)) //nolint:gosec // a file of this package
	cmd.Env = append(os.Environ(), "PYTHONPATH="+tree)
	cmd.Stdin = bytes.NewReader(in)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var out [][]string
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &out)
	}
	if err == nil && len(out) == len(documents) {
		return out
	}
	t.Errorf("%s testdata/%s with %s: %v: %d answers for %d documents: %s", python, script, tree, err, len(out), len(documents), stderr.String())
	return nil
}
