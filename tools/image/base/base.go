// Package base creates the base image of the program: a user without rights, and Mozilla's root
// certificates from the release of golang.org/x/crypto/x509roots that go.mod pins. It needs no
// network.
package base

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Name is what annotations of the image call its base: there is none to be fetched, and the
// name exists nowhere (RFC 2606).
const Name = "image.invalid/scratch:latest"

// file is one of the base image: a link if it has a target.
type file struct{ path, content, target string }

// program is where ko stores the program.
const program = "/ko-app/osm-gitops"

// Index makes the base for each platform, such as linux/arm64. Equal arguments make equal
// images: created is the time of everything in them.
func Index(platforms []string, created time.Time) (v1.ImageIndex, error) {
	content, err := layer([]file{
		{path: "etc/group", content: "root:x:0:\nnonroot:x:65532:\n"},
		{path: "etc/passwd", content: "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"},
		{path: "etc/ssl/certs/ca-certificates.crt", content: roots()},
		// The commands of operating-system-manager's image, for Deployments that allow another
		// image only.
		{path: "usr/local/bin/osm-controller", target: program},
		{path: "usr/local/bin/webhook", target: program},
	}, created)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return nil, fmt.Errorf("platform %q: %w", p, err)
		}
		one, err := image(content, platform, created)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

func image(content v1.Layer, platform *v1.Platform, created time.Time) (v1.Image, error) {
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err := mutate.Append(made, mutate.Addendum{Layer: content, History: v1.History{
		Created: v1.Time{Time: created}, CreatedBy: "osm-gitops tools/image", Comment: "users and root certificates",
	}})
	if err != nil {
		return nil, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: created}
	config.Config.Env = []string{"PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}
	return mutate.ConfigFile(made, config)
}

// layer is an archive of files that root owns and all users can read, with their folders.
func layer(files []file, created time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{}
	for _, f := range files {
		parts := strings.Split(f.path, "/")
		for i := 1; i < len(parts); i++ {
			dir := strings.Join(parts[:i], "/") + "/"
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: created}); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{Name: f.path, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.content)), ModTime: created}
		if f.target != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.target
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// roots are Mozilla's root certificates, but for those that count only under conditions a file
// of certificates cannot hold.
func roots() string {
	var b strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.String()
}
