package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/cmd/crane/cmd"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/osm-gitops/osm-gitops/tools/image/unpack"
)

const created = "2026-01-02T03:04:05Z"

// The image in the layout has the right user, program and labels, and contains no other
// executable.
func TestImage(t *testing.T) {
	t.Chdir("../..")
	dir := filepath.Join(t.TempDir(), "image")
	platforms := []string{"linux/amd64", "linux/arm64"}
	var out bytes.Buffer
	args := []string{"-o", dir, "-version", "v1.2.3-test", "-commit", "3f2a9c1", "-created", created, "-platforms", strings.Join(platforms, ",")}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest.String() != strings.TrimSpace(out.String()) {
		t.Fatalf("the layout holds %+v, and %s was said", manifest.Manifests, &out)
	}
	images := imagesOf(t, index, manifest.Manifests[0])
	if len(images) != len(platforms) {
		t.Fatalf("there are %d images for %q", len(images), platforms)
	}
	for _, image := range images {
		checkImage(t, image)
	}
	checkSBOM(t, dir+".sbom")
	checkPush(t, dir, manifest.Manifests[0].Digest.String())
	if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second image is added to the first: %v", err)
	}
	var again bytes.Buffer
	args[1] += "-again"
	if err := run(t.Context(), args, &again); err != nil || again.String() != out.String() {
		t.Errorf("the same commit makes %s and %s (%v)", &out, &again, err)
	}
}

// imagesOf returns the images of a layout's single entry, which is an index if there are several.
func imagesOf(t *testing.T, index v1.ImageIndex, d v1.Descriptor) []v1.Image {
	t.Helper()
	if !d.MediaType.IsIndex() {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		return []v1.Image{image}
	}
	inner, err := index.ImageIndex(d.Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var out []v1.Image
	for _, m := range manifest.Manifests {
		out = append(out, imagesOf(t, inner, m)...)
	}
	return out
}

func checkImage(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/ko-app/osm-gitops"}) || len(c.Cmd) > 0 {
		t.Errorf("it runs %q %q as %q", c.Entrypoint, c.Cmd, c.User)
	}
	if c.Labels["org.opencontainers.image.version"] != "v1.2.3-test" || c.Labels["org.opencontainers.image.revision"] != "3f2a9c1" {
		t.Errorf("labels are %q", c.Labels)
	}
	if got := config.Created.Format(time.RFC3339); got != created {
		t.Errorf("it was made at %s", got)
	}
	files, err := unpack.Image(image)
	if err != nil {
		t.Fatal(err)
	}
	var runnable []string
	for path, f := range files {
		if f.Mode&0o6000 != 0 {
			t.Errorf("%s is another user's when it runs: %o", path, f.Mode)
		}
		if f.FileInfo().Mode().IsRegular() && f.Mode&0o111 != 0 {
			runnable = append(runnable, path)
		}
	}
	if !slices.Equal(runnable, []string{"ko-app/osm-gitops"}) {
		t.Errorf("what can be run is %q", runnable)
	}
	if len(files["etc/ssl/certs/ca-certificates.crt"].Content) == 0 {
		t.Error("there are no root certificates")
	}
	if config.Architecture != runtime.GOARCH {
		return // this machine cannot run it
	}
	program := filepath.Join(t.TempDir(), "osm-gitops")
	if err := os.WriteFile(program, files["ko-app/osm-gitops"].Content, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "osm-gitops v1.2.3-test\ncommit 3f2a9c1\n") {
		t.Errorf("it says %v\n%s", err, said)
	}
}

// checkSBOM looks for what the program is made of.
func checkSBOM(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no SBOM: %v", err)
	}
	found := false
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var sbom struct {
			SPDXVersion string `json:"spdxVersion"`
			Packages    []struct{ Name string }
		}
		if err := json.Unmarshal(b, &sbom); err != nil || !strings.HasPrefix(sbom.SPDXVersion, "SPDX-") {
			t.Errorf("%s: %v", path, err)
		}
		for _, p := range sbom.Packages {
			found = found || strings.Contains(p.Name, "controller-runtime")
		}
	}
	if !found {
		t.Errorf("no SBOM of %q names what the program is made of", files)
	}
}

// checkPush copies a layout as docs/install.md and the release workflow do: what has the tag in
// the registry is what was built, and not an index around it.
func checkPush(t *testing.T, dir, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/platform/osm-gitops"
	push := cmd.NewCmdPush(&[]crane.Option{})
	var out bytes.Buffer
	push.SetOut(&out)
	push.SetArgs([]string{dir, repository + ":v1.0.0"})
	if err := push.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	there, err := crane.Digest(repository + ":v1.0.0")
	if err != nil || there != digest || strings.TrimSpace(out.String()) != repository+"@"+digest {
		t.Errorf("pushed is %s, said is %s; built was %s (%v)", there, &out, digest, err)
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{{}, {"-o", "x"}, {"-o", "x", "-version", "v1", "-commit", "c", "-created", "yesterday"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
