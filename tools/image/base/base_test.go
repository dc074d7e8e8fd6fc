package base

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/tools/image/unpack"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// The base is made for every machine, has nothing that could be run, and its root certificates
// can be read.
func TestIndex(t *testing.T) {
	platforms := []string{"linux/amd64", "linux/arm64"}
	index, err := Index(platforms, created)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if p := config.Platform().String(); p != m.Platform.String() {
			t.Errorf("the image for %s says it is for %s", m.Platform, p)
		}
		files, err := unpack.Image(image)
		if err != nil {
			t.Fatal(err)
		}
		for path, f := range files {
			if f.Mode&0o7022 != 0 || f.Uid != 0 || !f.ModTime.Equal(created) || f.FileInfo().Mode().IsRegular() && f.Mode&0o111 != 0 {
				t.Errorf("%s has mode %o, of user %d, at %s", path, f.Mode, f.Uid, f.ModTime)
			}
		}
		pem := files["etc/ssl/certs/ca-certificates.crt"].Content
		if n := bytes.Count(pem, []byte("BEGIN CERTIFICATE")); n < 50 || !x509.NewCertPool().AppendCertsFromPEM(pem) {
			t.Errorf("there are %d root certificates", n)
		}
		for _, name := range []string{"osm-controller", "webhook"} {
			if got, ok := files["usr/local/bin/"+name]; !ok || got.Typeflag != tar.TypeSymlink || got.Linkname != "/ko-app/osm-gitops" {
				t.Errorf("%s is not a link to the program: %+v", name, got.Header)
			}
		}
		if !bytes.Contains(files["etc/passwd"].Content, []byte("nonroot:x:65532:65532:")) {
			t.Error("the user has no name")
		}
	}
	if !slices.Equal(got, platforms) {
		t.Errorf("platforms are %q", got)
	}
}

// Equal arguments make equal images.
func TestSameAgain(t *testing.T) {
	var digests []string
	for range 2 {
		index, err := Index([]string{"linux/arm64"}, created)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("made twice it is %q", digests)
	}
	if _, err := Index([]string{"linux/a/b/c/d"}, created); err == nil {
		t.Error("a platform that is none is taken")
	}
}
